# cpack -G DEB --config BUILD/CPackConfig.cmake: the component `program` as a Debian package.
set(CPACK_PACKAGE_NAME a2asim)
set(CPACK_PACKAGE_VENDOR "the a2asim authors")
set(CPACK_PACKAGE_CONTACT "${A2ASIM_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "check the size of the all-to-all of mixture-of-experts serving")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Says from the launch command of an SGLang server, without a GPU, whether all expert-parallel ranks will derive the
same size of the one-sided all-to-all, whether it fits, and which flag to change. Replays scenarios on a simulated
cluster, explores all small configurations, and teaches in seven lessons.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME a2asim)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # Depends; dpkg-shlibdeps is in dpkg-dev
include(CPack)
