// The style and the script of every page, embedded by embed.cmake.
#pragma once

namespace a2asim::report_assets {

extern const char* const kStyle;
extern const char* const kScript;
extern const char* const kStyleHash;  // base64 of SHA-256, as Content-Security-Policy wants it
extern const char* const kScriptHash;

}  // namespace a2asim::report_assets
