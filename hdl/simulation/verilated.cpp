// Carries out an order on the core (orders.py): writes, settings, instructions, reads. One call each.
#include "Vprobe.h"
#include "verilated.h"
#include <cstdint>

// More cycles than any instruction takes.
static const int PATIENCE = 10000;

// Words that the Verilog leaves undefined are the same random words in each run.
static VerilatedContext *seeded(VerilatedContext *context) {
    context->randReset(2);
    context->randSeed(1);
    return context;
}

struct Machine {
    VerilatedContext context;
    Vprobe top{seeded(&context)};

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

// 0, or 1 where an instruction does not end. A row of `given` for each lane: strobes, PC, BR, DIR, steps, its first record.
int64_t execute(Machine *m, const uint64_t *given, const uint64_t *common, const uint64_t *writes, int64_t write_count,
                const uint64_t *reads, int64_t read_count, uint64_t *records, uint64_t *issues, uint64_t *words,
                uint64_t *state, uint64_t *totals) {
    Vprobe &t = m->top;
    t.write = 1;
    for (const uint64_t *w = writes; w != writes + 4 * write_count; w += 4) {
        t.lane = w[0];
        t.space = w[1];
        t.address = w[2];
        t.written = w[3];
        m->tick();
    }
    t.write = 0;
    for (int lane = 0; lane < LANES; lane++) {
        const uint64_t *own = given + 6 * lane;
        t.lane = lane;
        for (int i = 0; i < 6; i++) {
            if (own[0] >> i & 1) {
                t.strobes = 1 << i;
                if (i < 3) t.value = own[1 + i];
                m->tick();
            }
        }
        t.strobes = 0;
    }
    t.modes = common[0];
    t.code_size = common[1];
    t.data_size = common[2];

    const uint64_t last_only = common[3];
    uint64_t begun[LANES] = {}, count[LANES] = {}, clock = 0, halted = 0, running = 0, number = 0, any = 0;
    for (int lane = 0; lane < LANES; lane++) running |= (uint64_t)(given[6 * lane + 4] != 0) << lane;
    int quiet = 0;
    const bool runs = running != 0;
    t.run = running;
    t.eval();
    while (runs) {
        const uint64_t begins = t.begins;
        uint64_t over = t.halts | t.traps;
        if (begins) {
            quiet = 0;
            any = 1;
            if (!last_only) issues[number++] = begins;
        }
        for (int lane = 0; lane < LANES; lane++) {
            begun[lane] += begins >> lane & 1;
            over |= (uint64_t)(begun[lane] >= given[6 * lane + 4]) << lane;
        }
        halted |= t.halts;
        running &= ~over;
        t.run = running;
        m->tick();
        clock++;
        if (const uint64_t valid = t.told) {
            for (int lane = 0; lane < LANES; lane++) {
                if (!(valid >> lane & 1)) continue;
                if (last_only) count[lane] = 0;
                uint64_t *record = records + FIELDS * (given[6 * lane + 5] + count[lane]++);
                told(t, [&](int i, uint64_t word) { record[i < 9 ? i : i + 1] = word; });
                record[9] = clock;
            }
        }
        if (any && !running && !t.running) break;
        if (++quiet > PATIENCE) {
            state[0] = t.pc;
            return 1;
        }
    }
    t.read = 1;
    for (const uint64_t *r = reads; r != reads + 4 * read_count; r += 4) {
        t.lane = r[0];
        t.space = r[1];
        for (uint64_t at = r[2]; at != r[2] + r[3]; at++) {
            t.address = at;
            for (int i = 0; i < READ_CYCLES; i++) m->tick();
            *words++ = t.data;
        }
    }
    t.read = 0;
    for (int i = 0; i < 4; i++) m->tick();
    for (int lane = 0; lane < LANES; lane++) {
        t.lane = lane;
        for (int i = 0; i < READ_CYCLES; i++) m->tick();
        t.eval();
        const uint64_t found[9] = {t.pc, t.br, t.backward, halted >> lane & 1, count[lane],
                                   t.counter_0, t.counter_1, t.counter_2, t.counter_3};
        for (int i = 0; i < 9; i++) state[9 * lane + i] = found[i];
    }
    totals[0] = number;
    totals[1] = t.issued_0;
    totals[2] = t.issued_1;
    return 0;
}
}
