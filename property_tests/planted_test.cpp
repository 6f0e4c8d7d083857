// Every law can fail: the fault that is planted for it makes it fail, and no other law. One that compares a thing with
// itself, or forgot what it is about, is found here.
#include "property_tests/planted.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace a2asim::props {
namespace {

constexpr int kWorlds = 100;
constexpr int kWorldsOfOthers = 24;

// Laws that notice it, of those that the version keeps.
std::vector<std::string_view> witnesses(const Planted& fault, int worlds_of_others = kWorldsOfOthers) {
  std::vector<std::string_view> out;
  for (const Law& law : laws()) {
    if (is_known_to_fail(law, fault.version)) continue;
    const bool own = law.name == fault.law;
    auto why = noticed(law, fault, own ? kWorlds : worlds_of_others);
    if (own && !why) why = noticed_in_walk(law, fault);
    if (!why) continue;
    out.push_back(law.name);
    if (own) fmt::print("{}: {}: {}\n", law.name, fault.what, *why);
  }
  return out;
}

}  // namespace

TEST_CASE("planted faults: each is noticed by its law, and by no other") {
  for (const Planted& fault : planted_faults()) {
    CAPTURE(fault.what);
    const std::vector<std::string_view> found = witnesses(fault);
    CHECK_MESSAGE(std::ranges::count(found, fault.law) == 1, "law ", fault.law, " notices nothing");
    const bool alone = found.size() < 2;
    if (!alone) fmt::print("  also noticed by {}\n", fmt::join(found, ", "));
    CHECK_MESSAGE(alone == fault.not_alone.empty(), "noticed by ", fmt::format("{}", fmt::join(found, ", ")));
  }
}

TEST_CASE("planted faults: there is one for every law, and without it all laws hold") {
  const std::vector<Planted> all = planted_faults();
  for (const Law& law : laws())
    CHECK_MESSAGE(std::ranges::count(all, law.name, &Planted::law) >= 1, "no fault is planted for law ", law.name);
  for (const std::string_view version : {kSoundVersion, std::string_view("pr27945"), std::string_view("pr29461")})
    CHECK(witnesses({.law = "", .what = "nothing", .version = version}, kWorlds).empty());
}

TEST_CASE("planted faults: a law that compares a thing with itself is found") {
  const Law hollow = {"hollow",
                      "a rank derives its own R",
                      [](const Scenario& world, Trial& trial) {
                        const Deployment* deployment = trial.bench.deployment(world);
                        if (deployment == nullptr) return std::string();
                        const auto decider = trial.bench.product().decider(*deployment);
                        const auto first = decider->decide(step_batches(world, 0).batches), second = first;
                        const auto rows = [](const RankDecision& one) { return one.rows; };
                        const bool same = std::ranges::equal(first, second, {}, rows, rows);
                        return same ? std::string() : std::string("differs");
                      },
                      random_space,
                      {}};
  for (const Planted& fault : planted_faults()) CHECK_FALSE(noticed(hollow, fault, 3).has_value());
}

}  // namespace a2asim::props
