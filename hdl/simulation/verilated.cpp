// Carries out an order on the core (orders.py): writes, settings, instructions, reads. One call each.
#include "Vprobe.h"
#include "verilated.h"
#include <cstdint>

// More cycles than any instruction takes.
static const int PATIENCE = 2000;
enum { RUNNING = 1, BEGINS = 2, HALTS = 4, TRAPS = 8, TOLD = 16 };

struct Machine {
    VerilatedContext context;
    Vprobe top{&context};

    void tick() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
    }
};

template <typename F> static void told(Vprobe &t, F put) {
#define PUT(i) put(i, t.told_##i);
    PUT(0) PUT(1) PUT(2) PUT(3) PUT(4) PUT(5) PUT(6) PUT(7) PUT(8) PUT(9) PUT(10) PUT(11) PUT(12) PUT(13) PUT(14) PUT(15)
    PUT(16) PUT(17) PUT(18) PUT(19) PUT(20) PUT(21) PUT(22) PUT(23) PUT(24) PUT(25) PUT(26) PUT(27) PUT(28) PUT(29)
#undef PUT
}
static_assert(FIELDS == 31, "the words of a record, the clock among them");

extern "C" {

Machine *make() {
    auto *m = new Machine;
    m->top.rst = 1;
    m->top.eval();
    m->tick();
    m->top.rst = 0;
    m->top.eval();
    return m;
}

void destroy(Machine *m) { delete m; }

// The number of records, or −1 where an instruction does not end.
int64_t execute(Machine *m, const uint64_t *given, const uint64_t *writes, int64_t write_count, const uint64_t *reads,
                int64_t read_count, uint64_t *records, uint64_t *words, uint64_t *state) {
    Vprobe &t = m->top;
    t.write = 1;
    for (const uint64_t *w = writes; w != writes + 3 * write_count; w += 3) {
        t.space = w[0];
        t.address = w[1];
        t.written = w[2];
        m->tick();
    }
    t.write = 0;
    for (int i = 0; i < 6; i++) {
        if (given[0] >> i & 1) {
            t.strobes = 1 << i;
            if (i < 3) t.value = given[1 + i];
            m->tick();
        }
    }
    t.strobes = 0;
    t.modes = given[4];
    t.code_size = given[5];
    t.data_size = given[6];

    const uint64_t steps = given[7], last_only = given[8];
    uint64_t begun = 0, clock = 0, halted = 0;
    int64_t count = 0;
    int quiet = 0;
    t.run = steps != 0;
    t.eval();
    while (steps) {
        if (t.status & BEGINS) {
            begun++;
            quiet = 0;
        }
        halted |= (t.status & HALTS) != 0;
        if (begun == steps || t.status & (HALTS | TRAPS)) t.run = 0;
        m->tick();
        clock++;
        if (t.status & TOLD) {
            if (last_only) count = 0;
            uint64_t *record = records + FIELDS * count++;
            told(t, [&](int i, uint64_t word) { record[i < 9 ? i : i + 1] = word; });
            record[9] = clock;
        }
        if (begun && !(t.status & RUNNING)) break;
        if (++quiet > PATIENCE) {
            state[0] = t.pc;
            return -1;
        }
    }
    t.read = 1;
    for (const uint64_t *r = reads; r != reads + 3 * read_count; r += 3) {
        t.space = r[0];
        for (uint64_t at = r[1]; at != r[1] + r[2]; at++) {
            t.address = at;
            m->tick();
            *words++ = t.data;
        }
    }
    t.read = 0;
    for (int i = 0; i < 4; i++) m->tick();
    const uint64_t found[8] = {t.pc, t.br, t.backward, halted, t.counter_0, t.counter_1, t.counter_2, t.counter_3};
    for (int i = 0; i < 8; i++) state[i] = found[i];
    return count;
}
}
