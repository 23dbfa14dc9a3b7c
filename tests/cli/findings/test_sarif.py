"""SARIF: the same findings as the text has, in a log that scanners accept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT, TRAPPED, LIMIT = 0, 2, 3, 4


def checked(text: str) -> dict[str, Any]:
    """The only run of a log, with the rules of the standard that a reader relies on."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        for location in result.get("locations", ()):
            place = location["physicalLocation"]
            assert re.fullmatch(r"[\w./~%:-]+", place["artifactLocation"]["uri"])
            region = place.get("region")
            if region is not None:
                assert region["startLine"] >= 1
                assert 1 <= region["startColumn"] <= region["endColumn"]
    return dict(run)


@pytest.mark.parametrize(
    ("arguments", "code", "found"),
    [
        (("run", "add.rga"), OK, []),
        (("run", "wrong.rga"), BAD_INPUT, ["RG0101", "RG0108"]),
        (("run", "erase.rga", "--strict"), TRAPPED, None),
        (("run", "endless.rga", "--max-steps", "9"), LIMIT, ["RG0420"]),
        (("run", "no such.rga"), BAD_INPUT, ["RG0501"]),
        (("verify", "wrong.rga", "add.rga", "unreachable.rga"), BAD_INPUT, None),
    ],
)
def test_the_log_has_the_codes_of_the_text(
    cli: Cli, folder: Path, arguments: tuple[str, ...], code: int, found: list[str] | None
) -> None:
    plain = cli(*arguments)
    assert cli(*arguments, "--sarif", "log.sarif") == plain
    assert plain[0] == code
    results = checked((folder / "log.sarif").read_text())["results"]
    codes = [result["ruleId"] for result in results]
    assert codes == re.findall(r"^(?:error|warning)\[(RG\d+)\]", plain[2], re.MULTILINE)
    assert (codes == []) == (code == OK)
    assert found is None or codes == found


def test_places(cli: Cli, folder: Path) -> None:
    cli("verify", "wrong.rga", "--sarif", "log.sarif")
    result = checked((folder / "log.sarif").read_text())["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "wrong.rga"
    assert place["region"] == {
        "startLine": 2,
        "startColumn": 9,
        "endColumn": 11,
        "snippet": {"text": "        ad r1, 5"},
    }


def test_names_of_files_are_uris(cli: Cli, folder: Path) -> None:
    named = folder / "a b#ü.rga"
    named.write_text((folder / "wrong.rga").read_text())
    for name, uri in (("a b#ü.rga", "a%20b%23%C3%BC.rga"), (str(named), named.as_uri())):
        cli("verify", name, "--sarif", "log.sarif")
        result = checked((folder / "log.sarif").read_text())["results"][0]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_an_image_is_named_without_a_region(cli: Cli, folder: Path) -> None:
    assert cli("asm", "add.rga", "-o", "short.rgx")[0] == OK
    (folder / "short.rgx").write_bytes((folder / "short.rgx").read_bytes()[:-3])
    for more in ((), ("add.rga",)):
        assert cli("verify", "short.rgx", *more, "--sarif", "log.sarif")[0] == BAD_INPUT
        (result,) = checked((folder / "log.sarif").read_text())["results"]
        assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "short.rgx"}}


def test_on_standard_output(cli: Cli) -> None:
    code, out, err = cli("verify", "wrong.rga", "add.rga", "--sarif", "-")
    assert code == BAD_INPUT
    assert checked(out)["results"]
    assert "error[" in err


def test_the_log_does_not_replace_an_input(cli: Cli, folder: Path) -> None:
    before = (folder / "add.rga").read_text()
    code, _, err = cli("verify", "add.rga", "--sarif", "add.rga")
    assert code == BAD_INPUT
    assert "error[RG0513]" in err
    assert (folder / "add.rga").read_text() == before
    code, _, err = cli("verify", "wrong.rga", "--sarif", "no/such/folder.sarif")
    assert (code, "Traceback" in err) == (BAD_INPUT, False)


def test_several_programs(cli: Cli) -> None:
    code, out, err = cli("verify", "add.rga", "wrong.rga", "erase.rga", "nope.rga")
    assert code == BAD_INPUT
    lines = out.splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == ["add.rga", "wrong.rga", "erase.rga", "nope.rga"]
    assert lines[0].endswith("the program can run backward everywhere")
    assert lines[1] == "wrong.rga: is no program"
    assert lines[2].endswith("up to its 1 erase")
    assert lines[-1] == "4 programs, 2 with errors"
    assert err.count("error[") == 3
    found = json.loads(cli("verify", "add.rga", "wrong.rga", "--json")[1])["findings"]
    assert {f["span"]["file"] for f in found} == {"wrong.rga"}
    assert cli("verify", "add.rga", "erase.rga")[0] == OK
    assert cli("verify", "-", "-")[0] == BAD_INPUT
