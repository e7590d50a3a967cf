"""Every message a user can get for a mistake: where, what, what to do, and the exit status."""

from __future__ import annotations

import os

import pytest

from tests.plugin.support import Project

USAGE = pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--benchrig-runtime", "olama", "--benchrig-model", "x"],
            "*unknown runtime*olama*ollama*",
        ),
        (["--benchrig-suite", "reasonning"], "*unknown suite*reasonning*reasoning*"),
        (["--benchrig-scenarios", "nowhere"], "*scenario path*nowhere does not exist*"),
        (["--benchrig-runs", "0"], "*--benchrig-runs*at least 1*"),
        (["--benchrig-threshold="], "*--benchrig-threshold: the value is empty, expected EXPR*"),
        (["--benchrig-suite", " "], "*--benchrig-suite: the value is empty, expected NAME*"),
        (["--benchrig-base-url", "http://h:1/v1?api-version=2"], "*a query*would not be sent*"),
        (["--benchrig-runs", "5..3"], "*--benchrig-runs*MIN not above MAX*"),
        (["--benchrig-runs", "many"], "*--benchrig-runs*N or MIN..MAX*"),
        (["--benchrig-warmup-runs", "-1"], "*--benchrig-warmup-runs*at least 0*"),
        (["--benchrig-option", "temperature"], "*--benchrig-option*KEY=VALUE*"),
        (["--benchrig-option", "temperature=warm"], "*temperature takes a number*"),
        (["--benchrig-option", "num_ctx=1.5"], "*num_ctx takes a whole number*"),
        (["--benchrig-think", "maybe"], "*--benchrig-think*auto, on, off*"),
        (["--benchrig-request-timeout", "0"], "*--benchrig-request-timeout*above 0*"),
        (["--benchrig-stall-timeout", "nan"], "*--benchrig-stall-timeout*above 0*"),
        (["--benchrig-sandbox", "jail"], "*--benchrig-sandbox*jail*auto*strict*process*"),
        (["--benchrig-api-key-env", "sk-12 34"], "*--benchrig-api-key-env*name of an environment*"),
        (["--benchrig-log-level", "loud"], "*--benchrig-log-level*warning*"),
        (["--benchrig-resume", "gone.jsonl"], "*--benchrig-resume*gone.jsonl is not a file*"),
        (["--benchrig-replay", "gone.jsonl"], "*--benchrig-replay*gone.jsonl is not a file*"),
        (["--benchrig-compare", "gone.json"], "*--benchrig-compare*gone.json is not a file*"),
        (["--benchrig-base-url", "not a url"], "*--benchrig-base-url*http*"),
        (["-o", "benchrig_sample_interval=0"], "*benchrig_sample_interval*above 0*"),
        (["-o", "benchrig_sample_interval=-1"], "*benchrig_sample_interval*above 0*"),
        (["-o", "benchrig_composite_weights=coding=1"], "*coding=, reasoning= and performance=*"),
        (["-o", "benchrig_think=speed=perhaps"], "*benchrig_think*on or off*"),
        (["-o", "benchrig_sandbox_memory_mb=-5"], "*benchrig_sandbox_memory_mb*at least 32*"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(project: Project, words: list[str], message: str) -> None:
    result = project.run(*words)

    assert result.ret == USAGE
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_a_model_that_nobody_has_says_what_was_probed(project: Project) -> None:
    result = project.run(model="no-such-model-anywhere")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["*no-such-model-anywhere: no local runtime lists this model*"])


def test_an_unknown_model_of_a_server_is_an_error(project: Project) -> None:
    result = project.run(model="openai:dmo")

    result.assert_outcomes(errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*model_not_found*dmo*demo*"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{", "*bad.json:1*JSON*"),
        ("{}", "*bad.json:*scenarios*"),
        ("[]", ""),
        ("42", "*bad.json:1*array*"),
        ('[{"id": "A b", "kind": "speed", "prompt": "x"}]', "*bad.json:1*id*"),
        ('[{"id": "a", "kind": "spead", "prompt": "x"}]', "*bad.json:1*spead*speed*"),
        ('[{"id": "a", "kind": "speed", "prompt": 7}]', "*bad.json:1*prompt*string*"),
        (
            '[{"id": "a", "kind": "speed", "prompt": "x"},\n'
            '{"id": "a", "kind": "speed", "prompt": "y"}]',
            "*bad.json:2*a*",
        ),
        (
            '[{"id": "a", "prompt": "x", "check_type": "regex", "accepted_patterns": ["("]}]',
            "*bad.json:1*accepted_patterns*",
        ),
        ('[{"id": "a", "prompt": "x", "test_assertions": ["assert ("]}]', "*test_assertions*"),
        (
            '[{"id": "a", "context_size": 512, "prompt_file": "gone.txt", "query": "x"}]',
            "*gone.txt*",
        ),
    ],
)
def test_a_faulty_scenario_file_names_place_and_remedy(
    project: Project, text: str, message: str
) -> None:
    project.write("scenarios/bad.json", text)

    result = project.run("scenarios/bad.json")

    if message:
        result.stdout.fnmatch_lines([message])
        assert result.ret == pytest.ExitCode.INTERRUPTED
    else:
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.fnmatch_lines(["*scenarios/bad.json holds no scenario*empty*"])
    assert "Traceback" not in result.stdout.str()


def test_no_scenario_selected_is_pytests_own_no_tests(project: Project) -> None:
    assert project.run("-k", "nothing_like_this").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_an_output_directory_that_cannot_be_is_a_usage_error(project: Project) -> None:
    project.write("taken", "a file, not a directory")

    result = project.run("--benchrig-output-dir", "taken")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["*taken*--benchrig-output-dir*"])


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to a read-only directory")
def test_a_read_only_output_directory_is_a_usage_error(project: Project) -> None:
    folder = project.pytester.mkdir("locked")
    folder.chmod(0o555)

    result = project.run("--benchrig-output-dir", "locked/results")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["*locked*"])


def test_a_key_is_never_printed_or_stored(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")

    result = project.run("--benchrig-api-key-env", "MY_KEY", "-vv")

    everything = result.stdout.str() + result.stderr.str()
    for path in (project.pytester.path / "results").rglob("*"):
        if path.is_file():
            everything += path.read_text("utf-8")
    result.assert_outcomes(passed=2)
    assert "sk-very-secret" not in everything


def test_an_empty_model_is_a_usage_error(project: Project) -> None:
    result = project.run(model="")
    empty = project.run("--benchrig-model", "", model="")

    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert empty.ret == USAGE
    empty.stderr.fnmatch_lines(["*--benchrig-model: the value is empty, expected TARGET*"])


def test_a_path_behind_an_option_never_becomes_the_root_in_silence(project: Project) -> None:
    outside = project.pytester.path.parent / "elsewhere"
    outside.mkdir(exist_ok=True)

    lost = project.run("--benchrig-output-dir", str(outside))
    kept = project.run(f"--benchrig-output-dir={outside}")

    assert lost.ret == USAGE or "rootdir: " + str(project.pytester.path) in lost.stdout.str()
    kept.assert_outcomes(passed=2)


def test_a_result_that_could_not_be_written_is_not_success(project: Project) -> None:
    project.write(
        "conftest.py",
        "from pathlib import Path\n"
        "def pytest_benchrig_scorecard(scorecard, config):\n"
        "    Path('results/latest.csv').mkdir()\n",
    )

    result = project.run()

    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*WARNING*latest.csv could not be written*"])


def test_a_mark_with_a_misspelt_argument_is_a_usage_error(project: Project) -> None:
    project.write(
        "tests/test_sql.py",
        "import pytest\n@pytest.mark.benchrig(suit='sql')\ndef test_it(benchrig_client): pass\n",
    )

    result = project.run("tests")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["*the mark benchrig takes suite= and timing=, not suit*"])


@pytest.mark.parametrize("suite", ["skip", "mine", "all"])
def test_a_marks_suite_that_is_an_existing_mark_is_a_usage_error(
    project: Project, suite: str
) -> None:
    project.write("pytest.ini", "[pytest]\nmarkers = mine: the user's own\n")
    project.write(
        "tests/test_sql.py",
        f"import pytest\n@pytest.mark.benchrig(suite={suite!r})\n"
        "def test_it(benchrig_client): pass\n",
    )

    result = project.run("tests")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f'*test_it*"{suite}"*choose another name*'])


def test_a_misspelt_runtime_before_the_model_is_said_with_the_names_there_are(
    project: Project,
) -> None:
    result = project.run(model="olama:m")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["*Probed*", "*'olama'*did you mean ollama?*llamacpp*"])


def test_a_model_in_the_environment_leaves_an_unrelated_project_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRIG_MODEL", "openai:demo")
    project.write("scenarios/flow.json", [{"name": "x", "steps": ["a"]}])
    project.write("test_unit.py", "def test_unit(): pass\n")

    project.run(model="").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "words",
    [
        ["--benchrig-base-url", "http://bob:SECRETPW@127.0.0.1:99999/v1"],
        ["--benchrig-base-url", "htp://bob:SECRETPW@127.0.0.1/v1"],
        ["--benchrig-base-url", "https//bob:SECRETPW@127.0.0.1"],
        ["--benchrig-api-key-env", "sk-SECRETPW"],
    ],
)
def test_a_usage_error_shows_no_secret(project: Project, words: list[str]) -> None:
    result = project.run(*words)

    assert result.ret == USAGE
    assert "SECRETPW" not in result.stdout.str() + result.stderr.str()
    result.stderr.fnmatch_lines([f"*{words[0]}*expected*"])


def test_a_long_list_of_models_is_no_path(project: Project) -> None:
    models = ",".join(f"openai:a-model-with-a-long-name-{i}" for i in range(12))
    result = project.run("--co", "-q", "--benchrig-model", models, model="")

    assert result.ret == 0
    assert "24 tests collected" in result.stdout.str()


def test_a_target_named_twice_is_a_usage_error_where_warnings_are_errors(
    project: Project,
) -> None:
    result = project.run("-W", "error", "--co", model="openai:demo,openai:demo")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["*openai:demo was asked for twice*"])


def test_two_python_tests_of_one_name_and_suite_are_refused(project: Project) -> None:
    """Their replies would else be counted as repetitions of one scenario."""
    for name in ("test_sql.py", "test_code.py"):
        project.write(
            name,
            "import pytest\n"
            "@pytest.mark.benchrig(suite='sql')\n"
            "@pytest.mark.parametrize('n', [1, 2])\n"
            "def test_counts(benchrig_client, n): pass\n",
        )
    project.run("test_sql.py", "--co").assert_outcomes()

    result = project.run("test_sql.py", "test_code.py", "--co")

    assert result.ret == USAGE
    result.stderr.fnmatch_lines(
        ["*test_code.py::test_counts*test_sql.py::test_counts*both*suite 'sql'*rename one*"]
    )


def test_a_key_variable_that_is_not_set_is_said(project: Project) -> None:
    result = project.run("--benchrig-api-key-env", "NO_SUCH_KEY", "--co")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*NO_SUCH_KEY is not set: requests carry no key*"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--benchrig-csv", "out", "--benchrig-html", "out"], "*csv and --benchrig-html*out*"),
        (["--benchrig-csv=a/../x", "--benchrig-json=x"], "*csv and --benchrig-json: both*"),
        (["--benchrig-selfcheck", "--benchrig-resume", "run.json"], "*resume and*selfcheck*"),
        (["--benchrig-replay", "run.json", "--benchrig-resume", "run.json"], "*replay and*resume*"),
        (["--benchrig-replay", "run.json", "--benchrig-runs", "3"], "*leave out --benchrig-runs*"),
        (["--benchrig-allow-difference", "kernal"], "*'kernal', did you mean 'kernel'*parts:*"),
    ],
)
def test_what_could_only_be_ignored_is_a_usage_error(
    project: Project, words: list[str], message: str
) -> None:
    (project.pytester.path / "a").mkdir()
    project.run("--benchrig-json", "run.json")
    result = project.run(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_part_of_the_fingerprint_may_be_allowed_by_either_name(project: Project) -> None:
    words = ["model", "runtime openai:demo", "scenario", "sampling", "cpu", "fingerprint"]
    result = project.run(*(f"--benchrig-allow-difference={word}" for word in words))
    assert result.ret == 0


def test_a_threshold_on_a_suite_of_no_test_is_a_usage_error(project: Project) -> None:
    project.write(
        "test_own.py",
        """
import pytest

@pytest.mark.benchrig(suite="own")
def test_it(benchrig_client, benchrig_record):
    benchrig_client.generate("two plus three")
""",
    )
    good = project.run("test_own.py", "--benchrig-threshold", "own.completion_tokens.p95 >= 0")
    wrong = project.run("test_own.py", "--benchrig-threshold", "owm.completion_tokens.p95 >= 0")
    assert (good.ret, wrong.ret) == (0, pytest.ExitCode.USAGE_ERROR)
    wrong.stderr.fnmatch_lines(["*unknown suite 'owm', did you mean 'own'*"])
