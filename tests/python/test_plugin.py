"""The pytest plugin, in test suites of its own."""
import a2asim
import pytest

LAUNCH = (a2asim.DATA / "examples/collapse.sh").read_text()
SCENARIO = (a2asim.DATA / "scenarios/collapse.yaml").read_text()
TEST = """
    import pytest
    @pytest.mark.a2asim(version="{version}", num_experts=256, top_k=8, hidden_size=7168)
    def test_launch(a2asim):
        a2asim.assert_agrees("launch/*.sh")
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.mkdir("launch").joinpath("collapse.sh").write_text(LAUNCH)
    pytester.mkdir("scenarios").joinpath("collapse.yaml").write_text(SCENARIO)
    pytester.path.joinpath("scenarios/other.yaml").write_text("just: data\n")

    def run(*args):
        return pytester.runpytest_subprocess("-p", "a2asim.pytest_plugin", "-p", "no:cacheprovider", *args)

    return run


def test_a_launch_that_agrees_passes_and_one_that_does_not_fails(suite, pytester):
    pytester.makepyfile(test_old=TEST.format(version="pr29461"), test_new=TEST.format(version="pr30450"))
    result = suite("test_old.py", "test_new.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*geometry_disagreement*"])


def test_the_markers_are_known(suite, pytester):
    pytester.makepyfile(TEST.format(version="pr30450"))
    suite("--strict-markers").assert_outcomes(passed=2)  # the launch and the scenario


def test_scenarios_are_tests(suite, pytester):
    suite().assert_outcomes(passed=1)
    wrong = SCENARIO.replace("expect: {verdict: disagrees, step: 0", "expect: {verdict: disagrees, step: 1")
    assert wrong != SCENARIO
    pytester.path.joinpath("scenarios/wrong.yaml").write_text(wrong)
    result = suite()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*expected step 1 to be the first bad one*"])


def test_a_file_that_cannot_be_read_fails_with_the_programs_line(suite, pytester):
    pytester.path.joinpath("scenarios/broken.yaml").write_text("name: broken\nsteps: 7\n")
    result = suite()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*broken.yaml*"])


def test_the_patterns_can_be_chosen(suite, pytester):
    pytester.makeini("[pytest]\na2asim_scenarios = elsewhere/*.yaml\n")
    suite().assert_outcomes()
    pytester.mkdir("elsewhere").joinpath("one.yaml").write_text(SCENARIO)
    suite().assert_outcomes(passed=1)


def test_a_pattern_without_files_is_an_error():
    with pytest.raises(a2asim.UnusableInput, match="no file matches"):
        a2asim.assert_agrees("no/such/*.sh")
