"use strict";
// The explorer: a player of one recording in `root`, a document or a shadow root with the elements of component.html. `data` holds the
// words at the beginning and the changes of each step, so state n is reached by doing or undoing changes. Text of the program enters
// the elements as text nodes only. `step`: where it begins; `moved` is called with the number of each step that is shown.
function explorer(root, data, { step = data.first, moved = () => {} } = {}) {
  const { code, files, places, steps, variables, format } = data;
  const N = steps.pc.length - 1;
  const BACKWARD = 1, DIFFERENTIATING = 2;
  const scale = 2 ** format.frac;

  const element = (id) => root.getElementById(id);
  const host = root.host ?? root.documentElement;
  function made(tag, text = "", kind = "") {
    const node = document.createElement(tag);
    if (text !== "") node.textContent = text;
    if (kind) node.className = kind;
    return node;
  }
  const colour = (name) => getComputedStyle(host).getPropertyValue(`--${name}`).trim();

  // ------------------------------------------------------------------ the run

  const words = places.map((p) => p.start);
  const lastChange = places.map(() => -1);
  const changedAt = places.map(() => []);
  const before = [], changedBefore = [];
  const live = new Float64Array(N + 1), cycles = new Float64Array(N + 1);
  const erased = new Float64Array(N + 1), joules = new Float64Array(N + 1);
  const hits = code.map(() => [0, 0]);
  // Rows that the next picture of the state has to write again.
  const staleWords = new Set(), staleCode = new Set();
  let at = 0;

  const isCotangent = (p) => places[p].bank.startsWith("d");
  function prepare() {
    let count = data.unlisted + words.filter((word, p) => word !== 0 && !isCotangent(p)).length;
    const now = words.slice(), changed = lastChange.slice();
    live[0] = count;
    for (let n = 0; n < N; n++) {
      const list = steps.changes[n], old = [], oldChange = [];
      for (let k = 0; k < list.length; k += 2) {
        const p = list[k];
        old.push(now[p]); oldChange.push(changed[p]);
        if (!isCotangent(p)) count += (list[k + 1] !== 0) - (now[p] !== 0);
        now[p] = list[k + 1]; changed[p] = n;
        changedAt[p].push(n);
      }
      before.push(old); changedBefore.push(oldChange);
      const [c, e, j] = code[steps.pc[n]].costs[steps.mode[n]];
      live[n + 1] = count;
      cycles[n + 1] = cycles[n] + c;
      erased[n + 1] = erased[n] + e + (steps.dropped[n] || 0);
      const dropped = steps.dropped[n] ? steps.dropped[n] * (data.dropped_bit === null ? NaN : data.dropped_bit) : 0;
      joules[n + 1] = joules[n] + (j === null ? NaN : j) + dropped;
    }
  }
  function forward() {
    const list = steps.changes[at];
    for (let k = 0; k < list.length; k += 2) { words[list[k]] = list[k + 1]; lastChange[list[k]] = at; staleWords.add(list[k]); }
    hits[steps.pc[at]][steps.mode[at] & BACKWARD]++;
    staleCode.add(steps.pc[at]);
    at++;
  }
  function backward() {
    at--;
    hits[steps.pc[at]][steps.mode[at] & BACKWARD]--;
    staleCode.add(steps.pc[at]);
    const list = steps.changes[at];
    for (let k = list.length - 2; k >= 0; k -= 2) {
      words[list[k]] = before[at][k / 2];
      lastChange[list[k]] = changedBefore[at][k / 2];
      staleWords.add(list[k]);
    }
  }
  function go(n) {
    const target = Math.max(0, Math.min(N, n));
    while (at < target) forward();
    while (at > target) backward();
    render();
  }
  const lineAt = (n) => { const c = code[steps.pc[n]]; return c && c.line ? `${c.file}:${c.line}` : null; };
  function line(way) {
    let n = at;
    if (way > 0) { const l = lineAt(n); do n++; while (n < N && lineAt(n) === l); }
    else if (n > 0) { n--; const l = lineAt(n); while (n > 0 && lineAt(n - 1) === l) n--; }
    go(n);
  }

  // ------------------------------------------------------------------ numbers

  function real(word, kind) {
    if (kind === "lognum") {
      const big = BigInt.asUintN(format.width, BigInt(word));
      const size = BigInt.asIntN(format.width - 1, big);
      const value = 2 ** (Number(size) / scale);
      return big >> BigInt(format.width - 1) ? -value : value;
    }
    // A number with a binary point of its own: its kind is fixed[p].
    return kind.startsWith("fixed[") ? Number(word) * 2 ** -Number(kind.slice(6, -1)) : Number(word) / scale;
  }
  const short = (x) => String(Number.isInteger(x) && Math.abs(x) < 1e15 ? x : Number(x.toPrecision(10)));
  function shown(word, kind) {
    if (kind.startsWith("fixed") || kind === "lognum") return short(real(word, kind));
    if (kind === "uint") return String(BigInt.asUintN(format.width, BigInt(word)));
    return kind === "bool" ? String(word !== 0) : String(word);
  }
  function energyText(value) {
    if (Number.isNaN(value)) return "no figure";
    if (value === 0) return "0 J";
    const prefixes = [["", 1], ["m", 1e-3], ["µ", 1e-6], ["n", 1e-9], ["p", 1e-12], ["f", 1e-15], ["a", 1e-18], ["z", 1e-21]];
    const [prefix, unit] = prefixes.find(([, u]) => value >= u) || prefixes[prefixes.length - 1];
    return `${(value / unit).toPrecision(3)} ${prefix}J`;
  }

  // ------------------------------------------------------------------ source and code

  const sourceRows = new Map(), codeRows = [];
  // file:line -> addresses
  const addressesOf = new Map();
  code.forEach((c, pc) => {
    if (!c || !c.line) return;
    const key = `${c.file}:${c.line}`;
    if (!addressesOf.has(key)) addressesOf.set(key, []);
    addressesOf.get(key).push(pc);
  });
  let shownFile = -1;
  function buildSource() {
    if (!files.length) { element("source").remove(); element("panels").classList.add("sourceless"); return; }
    const choice = element("file");
    files.forEach((file, f) => { const o = made("option", file.name); o.value = f; choice.append(o); });
    choice.hidden = files.length < 2;
    choice.addEventListener("change", () => showFile(Number(choice.value)));
    showFile(0);
  }
  // The source begins at the first line that the run reaches, such as the head of the function.
  function openSource() {
    const c = code[steps.pc.find((pc) => code[pc] && code[pc].line && files[code[pc].file])];
    if (!c) return;
    showFile(c.file);
    const row = sourceRows.get(c.line);
    if (row) element("source-box").scrollTop = row.offsetTop - element("source-box").clientHeight / 3;
  }
  function showFile(f) {
    if (f === shownFile) return;
    shownFile = f;
    element("file").value = f;
    sourceRows.clear();
    const body = element("source-lines");
    body.replaceChildren();
    files[f].lines.forEach((text, n) => {
      const row = made("tr");
      row.append(made("td", "", "mark"), made("td", "", "count"), made("td", String(n + 1), "address"), made("td", text));
      sourceRows.set(n + 1, row);
      body.append(row);
      countLine(n + 1);
    });
  }
  // A line was executed as often as the one of its instructions that was executed most.
  function countLine(n) {
    const found = (addressesOf.get(`${shownFile}:${n}`) || []).map((pc) => hits[pc]);
    const text = counts([0, 1].map((way) => Math.max(0, ...found.map((hit) => hit[way]))));
    const row = sourceRows.get(n);
    if (row && row.cells[1].textContent !== text) row.cells[1].textContent = text;
  }
  function buildCode() {
    const body = element("code-lines");
    let left = 0;
    const gap = () => { if (left) { const row = made("tr", "", "group"); const th = made("th", `… ${left} more …`); th.colSpan = 4; row.append(th); body.append(row); } left = 0; };
    code.forEach((c, pc) => {
      if (!c) { left++; return; }
      gap();
      if (c.label) { const row = made("tr", "", "group"); const th = made("th", `${c.label}:`); th.colSpan = 4; row.append(th); body.append(row); }
      const row = made("tr");
      row.append(made("td", "", "mark"), made("td", "", "count"), made("td", String(pc), "address"), made("td", c.text));
      codeRows[pc] = row;
      body.append(row);
    });
    gap();
  }
  const counts = ([ahead, behind]) => (behind ? `${ahead || ""} ←${behind}` : ahead ? String(ahead) : "");
  const showing = new Set();
  function mark(row, back, box) {
    row.classList.add("here"); row.classList.toggle("back", back);
    row.cells[0].textContent = back ? "◀" : "▶";
    row.setAttribute("aria-current", "step");
    showing.add(row);
    const top = row.offsetTop, height = box.clientHeight;
    if (top < box.scrollTop + 20 || top > box.scrollTop + height - 40) box.scrollTop = top - height / 2;
  }
  function renderCode() {
    for (const row of showing) { row.classList.remove("here", "back"); row.cells[0].textContent = ""; row.removeAttribute("aria-current"); }
    showing.clear();
    const pc = steps.pc[at], back = (steps.mode[at] & BACKWARD) !== 0;
    const c = code[pc];
    if (c && c.line && files[c.file]) showFile(c.file);
    for (const n of staleCode) {
      codeRows[n].cells[1].textContent = counts(hits[n]);
      if (code[n].file === shownFile) countLine(code[n].line);
    }
    staleCode.clear();
    if (codeRows[pc]) mark(codeRows[pc], back, element("code-box"));
    if (c && c.line && c.file === shownFile && sourceRows.has(c.line)) mark(sourceRows.get(c.line), back, element("source-box"));
  }

  // ------------------------------------------------------------------ words

  // A table of more rows is slow; all words are in the picture of memory.
  const MOST_ROWS = 2000;
  const rowOf = new Map();
  let changedRows = [];
  function writeButtons(row, p, name) {
    const cell = made("td");
    for (const [sign, label, way] of [["◀", "the write before", -1], ["▶", "the write after", 1]]) {
      const button = made("button", sign);
      button.setAttribute("aria-label", `Go to ${label} of ${name}`);
      button.title = `go to ${label}`;
      button.addEventListener("click", () => goToWrite(p, way));
      cell.append(button);
    }
    row.append(cell);
  }
  // Back: the state behind the last write that is not the present one, then its beginning. Forward: the state behind the next write.
  function goToWrite(p, way) {
    const list = changedAt[p];
    if (way < 0) {
      const n = list.filter((s) => s + 1 < at).pop();
      go(n === undefined ? 0 : n + 1);
    } else {
      const n = list.find((s) => s + 1 > at);
      if (n !== undefined) go(n + 1);
    }
  }
  function buildWords() {
    const body = element("word-lines");
    for (const [bank, title] of [["r", "Registers"], ["m", "Memory"], ["dr", "Cotangents of registers"], ["dm", "Cotangents of memory"]]) {
      const found = places.map((_, p) => p).filter((p) => places[p].bank === bank);
      if (!found.length) continue;
      const head = made("tr", "", "group");
      const name = made("th", title);
      name.colSpan = 2;
      head.append(name, made("th", "integer", "number"), made("th", format.name, "number"));
      body.append(head);
      for (const p of found.slice(0, MOST_ROWS)) {
        const row = made("tr");
        row.append(made("td", places[p].name));
        writeButtons(row, p, places[p].name);
        row.append(made("td", "", "number value"), made("td", "", "number value"));
        rowOf.set(p, row);
        staleWords.add(p);
        body.append(row);
      }
      if (found.length > MOST_ROWS) { const row = made("tr", "", "group"); row.append(made("th", `… ${found.length - MOST_ROWS} more`)); body.append(row); }
    }
  }
  function renderWords() {
    for (const p of [...staleWords, ...changedRows]) {
      const row = rowOf.get(p), word = words[p];
      if (!row) continue;
      row.cells[2].textContent = String(word);
      row.cells[3].textContent = word === 0 ? "0" : short(real(word, "fixed"));
      row.className = `${lastChange[p] === at - 1 && at ? "changed" : ""} ${word === 0 ? "zero" : ""} ${isCotangent(p) ? "cotangent" : ""}`;
    }
    staleWords.clear();
    const list = at ? steps.changes[at - 1] : [];
    changedRows = list.filter((_, k) => k % 2 === 0);
  }
  function renderVariables() {
    const body = element("variable-lines");
    const point = steps.pc[at] + (steps.mode[at] & BACKWARD ? 1 : 0);
    const found = new Map();
    for (const v of variables) if (v.first <= point && point <= v.last) found.set(v.name, v);
    const focus = root.activeElement && body.contains(root.activeElement) ? root.activeElement.getAttribute("aria-label") : null;
    body.replaceChildren();
    const arrayNames = new Set(data.arrays.map((a) => a.name));
    const marks = element("unsettled");
    marks.hidden = true;
    const unsettled = (name) => {
      if (!data.unsettled[name]?.includes(steps.pc[at])) return "";
      marks.hidden = false;
      return " ~";
    };
    for (const v of [...found.values()].sort((a, b) => a.first - b.first)) {
      if (v.name.endsWith("]") && arrayNames.has(v.name.split("[")[0])) continue;
      const p = v.place, word = p < 0 ? 0 : words[p], row = made("tr");
      row.append(made("td", v.name));
      if (p >= 0) writeButtons(row, p, v.name); else row.append(made("td"));
      row.append(made("td", shown(word, v.kind) + unsettled(v.name), "number value"), made("td", v.kind, "address"));
      if (p >= 0 && at && lastChange[p] === at - 1) row.className = "changed";
      body.append(row);
    }
    for (const a of data.arrays) {
      const row = made("tr");
      const length = a.count < 0 ? a.length : Math.max(Number(words[a.count]), 0) * (a.each ?? 1);
      const places = a.places.slice(0, length).map((p, k) => found.get(`${a.name}[${k}]`)?.place ?? p);
      const list = places.map((p) => (p < 0 ? "0" : shown(words[p], a.kind)));
      row.append(made("td", a.name), made("td"), made("td", `${list.join(" ")}${length > list.length ? ` … (${length})` : ""}${unsettled(a.name)}`, "value"), made("td", a.kind, "address"));
      if (places.some((p) => p >= 0 && at && lastChange[p] === at - 1)) row.className = "changed";
      body.append(row);
    }
    element("variables").hidden = !body.children.length;
    if (focus) for (const b of body.querySelectorAll("button")) if (b.getAttribute("aria-label") === focus) b.focus();
  }

  // ------------------------------------------------------------------ pictures

  function sized(canvas, height) {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.scale(ratio, ratio);
    return [context, width, height];
  }
  const left = 4;
  const across = (n, width) => left + ((width - 2 * left) * n) / Math.max(N, 1);
  const TITLES = ["live words", "bits erased", "energy"];
  const TRACKS = [["live", live], ["erased", erased], ["energy", joules]];
  function drawTimeLine() {
    // The label of a track stands above its curve.
    const track = 46, label = 18, [context, width] = sized(element("timeline"), TRACKS.length * track + 4);
    TRACKS.forEach(([name, values], t) => {
      let most = 0;
      for (const v of values) if (v > most) most = v;
      context.strokeStyle = colour(name); context.lineWidth = 1.5; context.beginPath();
      const bottom = (t + 1) * track, height = track - label;
      const each = Math.max(1, Math.floor(N / (2 * width)));
      for (let n = 0; n <= N; n += each) {
        const y = bottom - (most ? (height * values[n]) / most : 0), x = across(n, width);
        if (n) { context.lineTo(x, y); } else context.moveTo(x, y);
      }
      context.stroke();
      context.fillStyle = colour("faint"); context.font = "10px system-ui, sans-serif";
      context.fillText(`${TITLES[t]}, 0 to ${t === 2 ? energyText(most) : most}`, 6, bottom - height - 6);
    });
    return [context, width, TRACKS.length * track + 4];
  }
  // Time runs to the right, each word has a row: a bar where it is not zero, from the step that computed it to the one that uncomputed it.
  function drawMemory() {
    const rows = places.map((_, p) => p).filter((p) => changedAt[p].length);
    rows.sort((a, b) => isCotangent(a) - isCotangent(b) || changedAt[a][0] - changedAt[b][0]);
    const each = Math.max(1, Math.min(9, Math.floor(320 / Math.max(rows.length, 1))));
    const canvas = element("memory"), [context, width, height] = sized(canvas, Math.max(rows.length * each, 20) + 4);
    rows.forEach((p, r) => {
      const y = 2 + r * each, thick = Math.max(1, each - 1);
      let since = places[p].start !== 0 ? 0 : -1, word = places[p].start;
      const bar = (from, to) => { context.fillRect(across(from, width), y, Math.max(1, across(to, width) - across(from, width)), thick); };
      context.fillStyle = colour(isCotangent(p) ? "cotangent" : "live");
      context.globalAlpha = 0.55;
      for (const n of changedAt[p]) {
        const list = steps.changes[n];
        for (let k = 0; k < list.length; k += 2) if (list[k] === p) word = list[k + 1];
        if (word !== 0 && since < 0) since = n + 1;
        else if (word === 0 && since >= 0) { bar(since, n + 1); since = -1; }
      }
      if (since >= 0) bar(since, N);
      context.globalAlpha = 1;
      for (const n of changedAt[p]) {
        const gone = code[steps.pc[n]].costs[steps.mode[n]][1] > 0;
        context.fillStyle = colour(gone ? "erased" : "wrote");
        context.globalAlpha = gone ? 1 : 0.35;
        if (gone || N < 3 * width) context.fillRect(across(n + 1, width) - 0.5, y, 1, thick);
      }
      context.globalAlpha = 1;
    });
    canvas.onmousemove = (event) => {
      const p = rows[Math.floor((event.offsetY - 2) / each)];
      canvas.title = p === undefined ? "" : places[p].name;
    };
    return [context, width, height];
  }
  const kept = new Map();
  function draw() {
    // In a notebook the component has no size before it is shown.
    if (!element("timeline").clientWidth) return;
    for (const [id, drawn] of [["timeline", drawTimeLine], ["memory", drawMemory]]) {
      const [context, width, height] = drawn();
      kept.set(id, [context, width, height, context.getImageData(0, 0, context.canvas.width, context.canvas.height)]);
    }
    renderHead();
  }
  function renderHead() {
    for (const [context, width, height, image] of kept.values()) {
      context.putImageData(image, 0, 0);
      context.fillStyle = colour("focus");
      context.fillRect(across(at, width) - 0.75, 0, 1.5, height);
    }
  }
  function seeking(canvas) {
    const seek = (event) => {
      const box = canvas.getBoundingClientRect();
      go(Math.round((N * (event.clientX - box.left - left)) / (box.width - 2 * left)));
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); play(0); seek(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) seek(event); });
  }

  // ------------------------------------------------------------------ status and controls

  function statusText() {
    const mode = steps.mode[at], c = code[steps.pc[at]];
    const where = c && c.line ? `   ${files[c.file] ? files[c.file].name : ""}:${c.line}` : "";
    const next = at === N ? data.end : `next: ${steps.pc[at]}: ${c ? (mode & BACKWARD && c.inverse !== c.text ? `${c.inverse}   (inverse of ${c.text})` : c.text) : "outside of the code"}${where}`;
    const list = at ? steps.changes[at - 1] : [];
    const parts = [];
    for (let k = 0; k < list.length; k += 2) parts.push(`${places[list[k]].name}: ${before[at - 1][k / 2]} → ${list[k + 1]}`);
    const changes = parts.length ? `changed: ${parts.join(", ")}` : at ? "changed: nothing" : "the beginning";
    return [`step ${data.first + at} of ${data.first + N}${mode & DIFFERENTIATING ? ", differentiating" : ""}\n${next}\n${changes}`, mode & BACKWARD];
  }
  function render() {
    renderCode(); renderWords(); renderVariables(); renderHead();
    const [text, back] = statusText(), box = element("status");
    box.textContent = text;
    box.classList.toggle("back", Boolean(back));
    element("scrubber").value = at;
    element("scrubber").setAttribute("aria-valuetext", `step ${data.first + at}`);
    element("live-now").textContent = `${live[at]} live words`;
    element("erased-now").textContent = `${erased[at]} bits erased`;
    element("energy-now").textContent = `${energyText(joules[at])} (${data.technology})`;
    element("cycles-now").textContent = `${cycles[at]} cycles`;
    for (const id of ["first", "line-back", "back", "play-back"]) element(id).disabled = at === 0;
    for (const id of ["last", "line", "step", "play"]) element(id).disabled = at === N;
    moved(data.first + at);
  }
  let timer = null, playing = 0;
  function play(way) {
    if (timer !== null) clearInterval(timer);
    timer = null;
    playing = way;
    element("play").setAttribute("aria-pressed", String(way > 0));
    element("play-back").setAttribute("aria-pressed", String(way < 0));
    if (!way) return;
    const rate = Number(element("speed").value), each = Math.max(1, Math.round(rate / 30));
    timer = setInterval(() => {
      go(at + way * each);
      if ((way > 0 && at === N) || (way < 0 && at === 0)) play(0);
    }, Math.max(33, 1000 / rate));
  }
  const ACTIONS = {
    first: () => go(0), last: () => go(N), back: () => go(at - 1), step: () => go(at + 1),
    "line-back": () => line(-1), line: () => line(1),
  };
  for (const [id, act] of Object.entries(ACTIONS)) element(id).addEventListener("click", () => { play(0); act(); });
  element("play").addEventListener("click", () => play(playing > 0 ? 0 : 1));
  element("play-back").addEventListener("click", () => play(playing < 0 ? 0 : -1));
  element("speed").addEventListener("change", () => { if (playing) play(playing); });
  element("scrubber").addEventListener("input", (event) => { play(0); go(Number(event.target.value)); });
  const KEYS = { ArrowRight: "step", ArrowLeft: "back", Home: "first", End: "last", "]": "line", "[": "line-back" };
  host.addEventListener("keydown", (event) => {
    const tag = event.composedPath()[0].tagName;
    if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(tag)) return;
    const id = event.shiftKey && event.key === "ArrowRight" ? "line" : event.shiftKey && event.key === "ArrowLeft" ? "line-back" : KEYS[event.key];
    if (id) { play(0); ACTIONS[id](); event.preventDefault(); }
    else if (event.key === " " && tag !== "BUTTON") { play(playing ? 0 : 1); event.preventDefault(); }
  });

  prepare();
  element("scrubber").max = N;
  element("name").textContent = data.name;
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  element("facts").textContent = `${grouped(N)} steps of ${grouped(code.length)} instructions in ${format.name}`;
  buildSource(); buildCode(); buildWords();
  seeking(element("timeline")); seeking(element("memory"));
  const resized = new ResizeObserver(draw), ended = new AbortController();
  resized.observe(element("timeline"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal: ended.signal });
  draw();
  openSource();
  go(step - data.first);
  return {
    words,
    get step() { return data.first + at; },
    to: (n) => go(n - data.first),
    stop() { play(0); resized.disconnect(); ended.abort(); },
  };
}
