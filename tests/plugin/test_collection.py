"""Scenario files as test items: names, marks, order, selection."""

from __future__ import annotations

import pytest

from tests.plugin.support import Project

SPEED = [{"id": "quick", "kind": "speed", "prompt": "Count to three.", "tags": ["smoke"]}]
TOOLS = [
    {
        "id": "weather",
        "prompt": "What is the weather in Oslo?",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
            }
        ],
        "turns": [{"expect": {"tool": "get_weather", "args": {"city": "Oslo"}}}],
    }
]


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_node_ids_name_file_scenario_and_target(project: Project) -> None:
    result = project.run("--co", "-q")

    assert ids(result) == [
        "scenarios/reasoning.json::sum[openai:demo]",
        "scenarios/reasoning.json::capital[openai:demo]",
    ]


def test_a_node_id_selects_one_item(project: Project) -> None:
    result = project.run("scenarios/reasoning.json::capital[openai:demo]", "-v")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*reasoning.json::capital?openai:demo? PASSED*"])


def test_items_are_ordered_by_target_then_suite(project: Project) -> None:
    project.write("scenarios/zz_speed.json", {"suite": "speed", "scenarios": SPEED})

    result = project.run("--co", "-q", model="openai:demo,openai:other")

    assert [line.split("::")[1] for line in ids(result)] == [
        "quick[openai:demo]",
        "sum[openai:demo]",
        "capital[openai:demo]",
        "quick[openai:other]",
        "sum[openai:other]",
        "capital[openai:other]",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-k", "reasoning"], 2),
        (["-k", "sum"], 1),
        (["-k", "openai"], 3),
        (["-k", "demo and not quick"], 2),
        (["-m", "smoke"], 1),
        (["-m", "speed"], 1),
        (["-m", "benchrig"], 3),
        (["--benchrig-suite", "reasoning"], 2),
        (["--benchrig-suite", "all"], 3),
    ],
)
def test_selection(project: Project, words: list[str], expected: int) -> None:
    project.write("scenarios/speed.json", SPEED)

    result = project.run("--co", "-q", "--strict-markers", *words)

    assert len(ids(result)) == expected


def test_tool_use_must_be_named(project: Project) -> None:
    project.write("scenarios/tool_use.json", TOOLS)

    assert len(ids(project.run("--co", "-q"))) == 2
    assert len(ids(project.run("--co", "-q", "--benchrig-suite", "tool_use"))) == 1
    assert len(ids(project.run("--co", "-q", "scenarios/tool_use.json"))) == 1


def test_a_duplicate_target_runs_once_with_a_warning(project: Project) -> None:
    result = project.run("--co", "-q", model="openai:demo,openai:demo")

    assert len(ids(result)) == 2
    result.stdout.fnmatch_lines(["*openai:demo was asked for twice*"])


def test_the_location_of_an_item_is_the_line_of_its_entry(project: Project) -> None:
    project.write(
        "conftest.py",
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items: print('AT', item.location[0], item.location[1])\n",
    )

    result = project.run("--co", "-q", "-s")

    # 0-based: the second line of the file opens the first entry.
    result.stdout.fnmatch_lines(["AT scenarios/reasoning.json 1", "AT scenarios/reasoning.json 10"])


def test_an_error_in_one_entry_leaves_the_others(project: Project) -> None:
    project.write(
        "scenarios/reasoning.json",
        [
            {
                "id": "good",
                "prompt": "What is two plus three? End with: Final answer: <answer>",
                "check_type": "final_answer",
                "expected_answer": "5",
                "accepted_patterns": ["5"],
            },
            {
                "id": "bad",
                "promt": "x",
                "prompt": "y",
                "check_type": "numeric",
                "expected_answer": "1",
            },
        ],
    )

    stopped = project.run()
    went_on = project.run("--continue-on-collection-errors")

    stopped.stdout.fnmatch_lines(["*reasoning.json:*bad*promt*prompt*"])
    assert stopped.ret == pytest.ExitCode.INTERRUPTED
    went_on.assert_outcomes(passed=1, errors=1)


def test_the_same_id_in_two_files_is_refused(project: Project) -> None:
    project.write(
        "scenarios/more.json",
        {
            "suite": "reasoning",
            "scenarios": [
                {
                    "id": "sum",
                    "prompt": "What is one plus one?",
                    "check_type": "numeric",
                    "expected_answer": "2",
                }
            ],
        },
    )

    result = project.run()

    result.stderr.fnmatch_lines(["*scenario id 'sum' of suite 'reasoning' stands also at*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_hook_of_the_project_is_asked_about_every_scenario(project: Project) -> None:
    project.write(
        "conftest.py",
        """
def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "capital":
        metafunc.fixturenames.append("turn")
        metafunc.parametrize("turn", [1, 2])
""",
    )

    result = project.run("--co", "-q")

    assert [line.split("::")[1].split("[")[0] for line in ids(result)] == [
        "sum",
        "capital",
        "capital",
    ]


def test_fixtures_added_to_one_item_stay_there(project: Project) -> None:
    project.write(
        "conftest.py",
        """
import pytest

@pytest.fixture
def extra(request):
    print("EXTRA", request.node.originalname)

def pytest_collection_modifyitems(items):
    items[0].fixturenames.append("extra")
""",
    )

    result = project.run("-s")

    told = [line.split("EXTRA ")[1] for line in result.outlines if "EXTRA" in line]
    assert told == ["sum"]
