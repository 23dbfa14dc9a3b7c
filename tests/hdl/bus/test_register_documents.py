"""The register map for others: C compiles it, a driver in C drives the hardware, the schema and a parser of SVD accept it, the page is fresh."""

from __future__ import annotations

import ctypes
import json
import subprocess
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import cmsis_svd
import pytest
from cmsis_svd.parser import SVDParser
from lxml import etree
from retrograd.hdl.bus.links import BusError, SimulatedBus
from retrograd.hdl.bus.register_documents import as_dict, header, main, markdown, svd
from retrograd.hdl.bus.register_map import MAGIC, UNLIMITED, Access, Area, HostRegister
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format
from support.bench import square_program

SMALL = Parameters(Format(16, 8), 16, 8)
#: a driver in C: the square of a word and its derivative, and the cause of a trap
DRIVER = """
#include <stdint.h>
static uint32_t (*get)(uint32_t);
static void (*put)(uint32_t, uint32_t);
#define RETROGRAD_READ32(base, address) ((void)(base), get(address))
#define RETROGRAD_WRITE32(base, address, word) ((void)(base), put(address, word))
#include "retrograd.h"

void use(uint32_t (*g)(uint32_t), void (*p)(uint32_t, uint32_t)) { get = g; put = p; }

static uint64_t command(uint64_t word)
{
    uint64_t status;
    retrograd_write(0, RETROGRAD_CONTROL, word);
    do status = retrograd_read(0, RETROGRAD_STATUS);
    while (RETROGRAD_GET(RETROGRAD_STATUS_BUSY, status));
    return status;
}

int gradient(const uint64_t *code, uint32_t n, uint32_t words, uint64_t *x, uint64_t *y)
{
    uint64_t identity = retrograd_read(0, RETROGRAD_IDENTITY), status;
    if (RETROGRAD_GET(RETROGRAD_IDENTITY_MAGIC, identity) != 0x5247) return -1;
    retrograd_write(0, RETROGRAD_POINTER, RETROGRAD_CODE(0));
    for (uint32_t i = 0; i < n; i++) retrograd_write(0, RETROGRAD_STREAM, code[i]);
    retrograd_write(0, RETROGRAD_CODE_SIZE, n);
    retrograd_write(0, RETROGRAD_DATA_SIZE, words);
    command(RETROGRAD_CONTROL_ZERO_WORDS_MASK | RETROGRAD_CONTROL_ZERO_COTANGENTS_MASK);
    retrograd_write(0, RETROGRAD_DATA(0), *x);
    retrograd_write(0, RETROGRAD_PC, 0);
    retrograd_write(0, RETROGRAD_BR, 0);
    retrograd_write(0, RETROGRAD_DIRECTION, 0);
    retrograd_write(0, RETROGRAD_MODES, RETROGRAD_PUT(RETROGRAD_MODES_OVERFLOW, 1));
    status = command(RETROGRAD_CONTROL_RUN_MASK | RETROGRAD_CONTROL_CLEAR_MASK);
    if (RETROGRAD_GET(RETROGRAD_STATUS_TRAPPED, status)) return (int)RETROGRAD_GET(RETROGRAD_STATUS_TRAP, status);
    *y = retrograd_read(0, RETROGRAD_DATA(1));
    retrograd_write(0, RETROGRAD_DATA_COTANGENTS(1), UINT64_C(1) << RETROGRAD_GET(RETROGRAD_IDENTITY_FRACTION, identity));
    retrograd_write(0, RETROGRAD_MODES, RETROGRAD_MODES_DIFFERENTIATE_MASK | RETROGRAD_MODES_OVERFLOW_MASK);
    status = command(RETROGRAD_CONTROL_RUN_MASK | RETROGRAD_CONTROL_TURN_MASK);
    if (!RETROGRAD_GET(RETROGRAD_STATUS_HALTED, status)) return -2;
    *x = retrograd_read(0, RETROGRAD_DATA_COTANGENTS(0));
    return 0;
}

uint64_t overflow(void) { return RETROGRAD_STATUS_TRAP_OVERFLOW; }
"""


def library(folder: Path, name: str, text: str) -> ctypes.CDLL:
    (folder / "retrograd.h").write_text(header())
    (folder / f"{name}.c").write_text(text)
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run(["cc", *flags, f"{name}.c", "-o", f"{name}.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / f"{name}.so"))


def test_a_driver_in_c(tmp_path: Path) -> None:
    bus, program = SimulatedBus(SMALL), square_program(SMALL.format)
    driver = library(tmp_path, "driver", DRIVER)
    refused: list[Exception] = []

    def put(address: int, word: int) -> None:
        try:
            bus.write(address, word)
        except BusError as error:
            refused.append(error)

    read, write = (
        ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32),
        ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32),
    )
    callbacks = read(bus.read), write(put)
    driver.use(*callbacks)
    code = (ctypes.c_uint64 * len(program.code))(*program.code)

    def gradient(x: int) -> tuple[int, int, int]:
        a, b = ctypes.c_uint64(x), ctypes.c_uint64()
        found = driver.gradient(code, len(code), program.memory, ctypes.byref(a), ctypes.byref(b))
        return found, a.value & 0xFFFF, b.value & 0xFFFF

    assert gradient(0x180) == (0, 0x300, 0x240)  # 1.5² = 2.25, and 2 · 1.5 = 3
    assert gradient(0x7000)[0] == driver.overflow() == TrapCause.OVERFLOW.value
    assert gradient(0xFF00) == (0, 0xFE00, 0x100)
    assert not refused


def test_the_addresses_of_the_header_are_those_of_memory(tmp_path: Path) -> None:
    """The accesses without a transport of one's own, in memory, in their order of halves."""
    text = """
#include "retrograd.h"
uint64_t area(uint32_t i) { return RETROGRAD_DATA_COTANGENTS(i + 1); }
void both(uint32_t *at, uint64_t word) { retrograd_write(at, RETROGRAD_MODES, word); }
uint64_t back(uint32_t *at) { return retrograd_read(at, RETROGRAD_MODES); }
"""
    made = library(tmp_path, "plain", text)
    made.area.restype = made.back.restype = ctypes.c_uint64
    memory = (ctypes.c_uint32 * 16)()
    made.both(memory, ctypes.c_uint64(0x1122334455667788))
    at = HostRegister.MODES.address // 4
    assert (memory[at], memory[at + 1], sum(map(bool, memory))) == (0x55667788, 0x11223344, 2)
    assert made.back(memory) == 0x1122334455667788
    assert made.area(6) == Area.DATA_COTANGENTS.address(7)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("svd") / "retrograd.svd"
    path.write_text(svd(SMALL, 0x3000_0000), encoding="utf-8")
    (schema,) = Path(cmsis_svd.__file__).parent.glob("schemas/CMSIS-SVD_1_3_9.xsd")
    etree.XMLSchema(etree.parse(schema)).assertValid(etree.parse(path))
    return SVDParser.for_xml_file(str(path)).get_device()


def test_a_parser_of_svd_finds_every_slot(device: Any) -> None:
    found = {}
    control = next(p for p in device.peripherals if p.name == "CONTROL")
    assert control.base_address == 0x3000_0000
    for register in control.registers:
        found[register.address_offset] = register
    for slot in HostRegister:
        low, high = found.pop(slot.address), found.pop(slot.address + 4, None)
        assert (low.name, low.size, low.access.value) == (slot.name, 32, slot.access.value)
        fields = [(f.name, f.bit_offset, f.bit_width) for f in low.fields]
        if high is not None:
            assert (high.name, high.access) == (f"{slot.name}_HIGH", low.access)
            fields += [(f.name, f.bit_offset + 32, f.bit_width) for f in high.fields]
        assert fields == [(f.name.upper(), f.low, f.width) for f in slot.fields]
        if slot.reset is not None:
            assert low.reset_value | (high.reset_value << 32 if high else 0) == slot.reset
    assert not found
    trap = next(f for r in control.registers if r.name == "STATUS" for f in r.fields if f.name == "TRAP")
    assert {v.name: v.value for v in trap.enumerated_values[0].enumerated_values} == {
        t.name: t.value for t in TrapCause
    }


def test_a_parser_of_svd_finds_every_area(device: Any) -> None:
    sizes = {Area.DATA: 8, Area.DATA_COTANGENTS: 8, Area.CODE: 16}
    for area in Area:
        peripheral = next(p for p in device.peripherals if p.name == area.name)
        assert peripheral.base_address == 0x3000_0000 + area.address(0)
        if area is not Area.CONTROL:
            (block,) = peripheral.address_blocks
            assert block.size == 8 * sizes.get(area, 256)


def test_the_map_has_a_description_of_everything() -> None:
    """And no two fields of a slot overlap; commands and events fit half a word, which one transfer writes."""
    for slot in HostRegister:
        assert slot.description
        masks = [field.mask for field in slot.fields]
        assert sum(masks) == reduce(or_, masks, 0)
        assert all(field.description for field in slot.fields)
        if slot.access is Access.WRITE:
            assert sum(masks) < 1 << 32
    assert [slot.value for slot in HostRegister] == list(range(len(HostRegister)))
    assert HostRegister.IDENTITY.field("magic").of(MAGIC << 16) == MAGIC
    assert HostRegister.STEPS.reset == UNLIMITED


def test_the_hardware_after_reset_is_as_the_map_states() -> None:
    bus = SimulatedBus(replace(SMALL, dma=True))
    for slot in HostRegister:
        if slot.reset is not None:
            assert bus.read(slot.address) | bus.read(slot.address + 4) << 32 == slot.reset, slot


def test_json_has_all() -> None:
    document = json.loads(json.dumps(as_dict()))
    assert [one["name"] for one in document["slots"]] == [slot.name for slot in HostRegister]
    assert document["areas"][3] == {"name": "DATA", "address": 0x3000_0000, "stride": 8, "description": "memory word n"}


def test_the_page_is_written_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert "is stale" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    assert (tmp_path / "registers.md").read_text(encoding="utf-8") == markdown()
