// The options that name a version, one for each engine: --sglang v0.5.13. One of them may be given.
#pragma once

#include <CLI/App.hpp>

#include "model/step/engine.h"

namespace a2asim {

void add_version_options(CLI::App& command, VersionChoice& choice, const char* about);

// --engine NAME: the newest version of that one, where no version is named.
void add_engine_option(CLI::App& command, VersionChoice& choice);

// The engine of the option that was given, else the one that is meant where nothing names one.
const Engine& engine_of(const VersionChoice& choice);

}  // namespace a2asim
