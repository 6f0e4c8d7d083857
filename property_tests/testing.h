// a2asim::testing, all of it: #include <a2asim/testing.h> in an installed tree.
//
// Worlds are drawn (choice.h, world.h), made smaller (smaller_worlds), put to laws (law.h) with a rule of one's own
// (workbench.h), and searched (search.h). Backends of the all-to-all have their conformance suite in a2asim::sim.
#pragma once

#include "property_tests/choice.h"
#include "property_tests/law.h"
#include "property_tests/search.h"
#include "property_tests/workbench.h"
#include "property_tests/world.h"
