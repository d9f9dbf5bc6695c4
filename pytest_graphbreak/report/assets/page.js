  const CHUNK = 100, BOXES = 30;
  const MEANT = new Set(data.meant), AGAIN = new Set(data.again);
  const ofCause = (cause, count) => (count === 1 ? cause : (data.plurals[cause] ?? `${cause}s`));

  // ---- strips

  function isNew(test, run, place) {
    const pair = place === null ? null : test.places[place].counts[run];
    return pair !== null && pair.was === 0 && pair.now > 0;
  }

  function width(ops) {
    return `${Math.min(52, Math.round(8 + 4 * Math.log2(1 + (ops ?? 1))))}px`;
  }

  function strip(test, run, layer, most) {
    const line = make("span", { class: "strip", "aria-hidden": "true" });
    layer.graphs.slice(0, most).forEach(({ name, cause, ops = null, place = null }, number) => {
      if (!MEANT.has(cause) && !AGAIN.has(cause) && (number > 0 || place !== null)) {
        line.append(make("i", { class: isNew(test, run, place) ? "cut new" : "cut", title: why(test, cause, place) }));
      }
      const size = ops === null ? "" : `, ${plural(ops, "op")}`;
      const box = make("i", { class: AGAIN.has(cause) ? "g again" : "g", title: `${name}: ${cause}${size}` });
      box.style.width = width(ops);
      line.append(box);
    });
    const listed = Math.min(layer.graphs.length, most);
    if (listed < layer.now) {
      line.append(make("span", { class: "rest" }, listed ? `+${layer.now - listed}` : plural(layer.now, "graph")));
    }
    return line;
  }

  function why(test, cause, place) {
    const row = place === null ? null : test.places[place];
    return row ? [cause, row.id, row.reason].filter(Boolean).join(" ") : cause;
  }

  function ghosts(count) {
    const line = make("span", { class: "strip", "aria-hidden": "true" });
    for (let i = 0; i < Math.min(count, BOXES); i++) line.append(make("i", { class: "g ghost" }));
    if (count > BOXES) line.append(make("span", { class: "rest" }, `+${count - BOXES}`));
    return line;
  }

  function counts(layer) {
    const cell = make("span", { class: "count" });
    if (layer.was === null || layer.was === layer.now) {
      cell.append(`${layer.now}`);
    } else {
      const moved = layer.now - layer.was;
      cell.append(`${layer.was} \u2192 ${layer.now} `, make("span", { class: moved > 0 || !layer.now ? "worse" : "better" }, signed(moved)));
    }
    return cell;
  }

  function spoken(layer) {
    const causes = new Map();
    for (const { cause } of layer.graphs) causes.set(cause, (causes.get(cause) ?? 0) + 1);
    const parts = [...causes].map(([cause, count]) => `${count} ${ofCause(cause, count)}`).join(", ");
    const was = layer.was === null || layer.was === layer.now ? "" : `, the baseline allows ${layer.was}`;
    return `${layer.name}: ${plural(layer.now, "graph")}${parts ? ` (${parts})` : ""}${was}.`;
  }

  // Of two runs of one profile the first is the run before: rows show the second, beside its counts.
  const BEFORE = data.before ?? null;

  function before(test, run, { name }) {
    const earlier = BEFORE === null || run === BEFORE ? null : test.runs[BEFORE];
    if (!earlier) return null;
    return earlier.layers.find((layer) => layer.name === name)?.now ?? 0;
  }

  function layersOf(test, run, label) {
    const result = test.runs[run];
    const words = result.layers.map((layer) => {
      const count = before(test, run, layer);
      return count === null ? spoken(layer) : `${spoken(layer)} The run before made ${count}.`;
    });
    const grid = make("span", { class: BEFORE === null ? "layers" : "layers compared", role: "img", "aria-label": words.join(" ") });
    if (label) grid.append(make("span", { class: "run" }, label));
    for (const layer of result.layers) {
      grid.append(make("span", { class: "layer" }, layer.name), strip(test, run, layer, BOXES), counts(layer));
      const count = before(test, run, layer);
      if (BEFORE !== null) grid.append(make("span", { class: "count before" }, count === null ? "" : `before ${count}`));
    }
    return grid;
  }

  // ---- one test

  const chosenRun = () => Number(byId("run").value);
  const usualRun = (test) => (BEFORE !== null && test.runs[1 - BEFORE] ? 1 - BEFORE : test.worst);
  const shownRun = (test) => (chosenRun() >= 0 && test.runs[chosenRun()] ? chosenRun() : usualRun(test));
  const shownVerdict = (test) => test.runs[shownRun(test)].verdict;

  function row(test) {
    const run = shownRun(test);
    const split = test.id.indexOf("::");
    const name = make("span", { class: "name" });
    if (split > 0) name.append(make("span", { class: "file" }, test.id.slice(0, split)));
    name.append(split > 0 ? test.id.slice(split + 2) : test.id);
    const verdict = test.runs[run].verdict;
    const because = reason(test, run);
    const label = data.runs.length > 1 ? data.runs[run].label : "";
    const details = make("details", { class: "test" },
      make("summary", {}, make("span", { class: `verdict ${verdict}` }, verdict), name, layersOf(test, run, label),
        because ? make("span", { class: "because" }, because) : null));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(panel(test));
      if (details.open) history.replaceState(null, "", `#${encodeURIComponent(test.id)}`);
    });
    return make("li", {}, details);
  }

  // What a row says of why: the first thing that is new, or else what comes first when it is opened.
  function reason(test, run) {
    const result = test.runs[run];
    const kind = data.kinds[result.verdict];
    if (!kind.named) return "";
    if (kind.blind && result.notes.length) return result.notes[0];
    const places = test.places.filter((place) => place.counts[run].now > 0 || place.counts[run].was > 0);
    const ranked = places.map((place) => [status(place).rank, place]).sort(([a], [b]) => a - b);
    const wanted = kind.shrinks ? 3 : 0;
    const matter = ranked.filter(([rank]) => rank === wanted);
    const [first] = matter.length ? matter[0].slice(1) : (ranked[0] ?? []).slice(1);
    if (!first) return "";
    const gone = status(first).word === "gone" ? "gone: " : "";
    const at = first.at ? `, ${first.at.file}${first.at.line ? `:${first.at.line}` : ""}` : "";
    const more = (matter.length || ranked.length) - 1;
    return `${gone}${first.id ?? first.kind} ${first.reason}${at}${more ? `, and ${more} more` : ""}`;
  }

  function panel(test) {
    const node = make("div", { class: "panel" });
    const present = test.runs.map((result, run) => [result, run]).filter(([result]) => result !== null);
    node.append(make("div", { class: "side" }, present.map(([result, run]) => side(test, result, run))));
    if (test.places.length) {
      node.append(make("h3", {}, "What cut it apart, was compiled again, or left the compiler"));
      const rows = test.places.map((place) => [status(place), place]).sort(([a], [b]) => a.rank - b.rank);
      node.append(...rows.map(([state, place]) => cause(place, state, present)));
    }
    for (const [result, run] of present) node.append(...folds(test, result, run, present.length > 1));
    return node;
  }

  // What ran, as bars of one scale: graphs, executions and reads of the test, and of each of its steps.
  function bars(result) {
    const rows = result.ran.map(({ name, was, now }) => [name, now, was === null || was === now ? `${now}` : `${was} \u2192 ${now}`]);
    const words = ["graphs", "executions", "reads"];
    const inSteps = result.steps.flatMap((step, number) => words.flatMap((word, at) =>
      step[at] ? [[`step ${number + 1} ${word}`, step[at], `${step[at]}`]] : []));
    if (!rows.length && !inSteps.length) return null;
    const graphs = result.layers.filter((layer) => layer.now).map((layer) => [`${layer.name} graphs`, layer.now, `${layer.now}`]);
    const shown = [...graphs, ...rows, ...inSteps];
    const most = Math.max(...shown.map(([, count]) => count), 1);
    return make("div", { class: "bars" }, shown.map(([name, count, text]) => [
      make("span", {}, name), make("progress", { max: most, value: count, "aria-label": `${name}: ${text}` }), make("span", {}, text)]));
  }

  function side(test, result, run) {
    const grid = make("div", { class: "layers" });
    for (const layer of result.layers) {
      if (grid.children.length) grid.append(make("span", { class: "gap" }));
      grid.append(make("span", { class: "layer" }, layer.name), strip(test, run, layer, 400), counts(layer));
      if (layer.was !== null) {
        grid.append(make("span", { class: "layer allowed" }, "baseline"), ghosts(layer.was), make("span", { class: "count allowed" }, `${layer.was}`));
      }
    }
    const tally = [`outcome ${result.outcome}${result.failedBy ? `, by the ${result.failedBy}` : ""}`];
    if (result.attempts > 1) tally.push(plural(result.attempts, "attempt"));
    for (const [word, pair] of [["graph break", result.breaks], ["eager place", result.eager]]) {
      const { was, now } = pair;
      if (now || was) tally.push(was === null || was === now ? plural(now, word) : `${was} \u2192 ${plural(now, word)}`);
    }
    if (result.recompiles) tally.push(plural(result.recompiles, "recompile"));
    return make("section", {},
      make("h3", {}, make("span", { class: `verdict ${result.verdict}` }, result.verdict), data.runs[run].label),
      grid,
      make("p", { class: "tally" }, tally.join(" \u00b7 ")),
      bars(result),
      result.accept ? make("p", { class: "tally" }, "To accept it, in a checkout:", make("pre", { class: "command" }, result.accept)) : null,
      result.notes.map((note) => make("p", { class: "tally" }, note)));
  }

  function status(place) {
    const known = place.counts.filter(({ was }) => was !== null);
    const seen = place.counts.some(({ now }) => now > 0);
    if (!seen) return { word: "gone", rank: 3 };
    if (known.some(({ was, now }) => was === 0 && now > 0)) return { word: "new", rank: 0 };
    return known.length ? { word: "known", rank: 2 } : { word: "", rank: 1 };
  }

  function cause(place, state, present) {
    const title = make("h4", {},
      state.word ? make("span", { class: `tag ${state.word}` }, state.word) : "",
      make("span", { class: "id" }, place.id ?? place.kind),
      place.reason || place.kind);
    const seen = make("div", { class: "seen" }, present.map(([, run]) => {
      const { was, now, seconds = null } = place.counts[run];
      const words = was === null || was === now ? `\u00d7${now}` : `\u00d7${was} \u2192 \u00d7${now}`;
      const label = present.length > 1 ? `${data.runs[run].label} ` : "";
      return make("div", {}, `${label}${words}${seconds === null ? "" : `, ${seconds.toFixed(1)} s`}`);
    }));
    const body = make("div", { class: "body" });
    if (place.graphs.length) body.append(make("p", { class: "at" }, `graph ${place.graphs.join(", ")}`));
    if (place.at) body.append(make("p", { class: "at" }, where(place.at)), source(place, state));
    if (place.try) body.append(make("p", { class: "fix" }, make("b", {}, "Fix: "), place.try));
    if (place.stack.length) {
      body.append(fold("more", `Called from ${plural(place.stack.length, "frame")}`,
        [...place.stack].reverse().map((frame) => [make("p", { class: "at" }, where(frame)), code(frame.code, "known")])));
    }
    const raised = place.raised ? [make("p", { class: "at" }, `Raised in ${where(place.raised)}`)] : [];
    const said = [...place.more.map((text) => make("p", {}, text)), ...raised];
    if (said.length) body.append(fold("more", "What torch says", said));
    return make("article", { class: "cause" }, title, seen, body);
  }

  function source(place, state) {
    const kind = state.word === "new" ? "" : "known";
    if (!place.at.source) return code(place.at.code, kind);
    const { first, source: lines } = place.at;
    return make("pre", { class: "source" }, lines.map((text, number) =>
      make("span", { class: first + number === place.at.line ? `here ${kind}` : null },
        make("span", { class: "no", "aria-hidden": "true" }, `${first + number}`), text || " ")));
  }

  function folds(test, result, run, named) {
    const found = [];
    const of = named ? ` on ${data.runs[run].label}` : "";
    const listed = result.layers.filter((layer) => layer.graphs.length);
    if (listed.length) found.push(fold("fold", `All graphs${of}`, listed.map((layer) => table(test, layer))));
    if (result.message) found.push(fold("fold", `Failure text${of}`, make("pre", {}, result.message)));
    return found;
  }

  function table(test, layer) {
    const timed = layer.graphs.some(({ seconds }) => seconds !== undefined);
    const head = ["graph", "cause", "ops", "in", "out", ...(timed ? ["seconds"] : []), "from", "place"];
    const number = (value) => make("td", { class: "number" }, value === null ? "" : `${value}`);
    const rest = layer.now > layer.graphs.length ? `, the first ${layer.graphs.length}` : "";
    const row = ({ name, cause: reason, ops = null, place = null, at = null, from = [], inputs = null, outputs = null, cached = null, seconds = null }) => make("tr", {},
      make("td", { class: "mono" }, name), make("td", {}, [why(test, reason, place), cached].filter(Boolean).join(", ")), number(ops), number(inputs), number(outputs),
      timed ? number(seconds === null ? null : seconds.toFixed(1)) : "",
      make("td", { class: "mono" }, from.join(", ")), make("td", { class: "mono" }, at === null ? "" : where(data.frames[at])));
    const models = Map.groupBy ? Map.groupBy(layer.graphs, ({ model = "" }) => model) : new Map([["", layer.graphs]]);
    const title = (model, graphs) => {
      const took = graphs.reduce((sum, { seconds = 0 }) => sum + seconds, 0);
      const words = `${model || "no model known"}: ${plural(graphs.length, "graph")}${timed ? `, ${took.toFixed(1)} s` : ""}`;
      return make("tr", {}, make("th", { scope: "rowgroup", colspan: `${head.length}` }, words));
    };
    return make("div", { class: "wide" }, make("table", {},
      make("caption", {}, `${layer.name}, ${plural(layer.now, "graph")}${rest}`),
      make("thead", {}, make("tr", {}, head.map((word) => make("th", { scope: "col", class: ["ops", "in", "out", "seconds"].includes(word) ? "number" : null }, word)))),
      [...models].map(([model, graphs]) => make("tbody", {}, models.size > 1 ? title(model, graphs) : "", graphs.map(row)))));
  }

  // ---- the list

  // What many tests have in common is written once in the data, and named by its number.
  const tests = data.tests;
  for (const test of tests) {
    for (const place of test.places) {
      place.at = place.at === null ? null : data.frames[place.at];
      place.raised = data.frames[place.raised ?? -1];
      place.stack = place.stack.map((number) => data.frames[number]);
      place.reason = data.texts[place.reason];
      place.try = place.try === null ? null : data.texts[place.try];
      place.more = place.more.map((number) => data.texts[number]);
    }
  }
  tests.forEach((test, order) => {
    const words = [test.id, ...data.runs.map((run) => run.label)];
    for (const place of test.places) words.push(place.kind, place.id ?? "", place.reason, ...wordsOf(place.at));
    test.hay = words.join("\n").toLowerCase();
    test.order = order;
  });
  const rows = new Map();
  const pressed = new Set();
  let found = [], shown = 0, chosen = null;

  const size = (test) => Math.max(0, ...test.runs[shownRun(test)].layers.map((layer) => layer.now));
  const growth = (test) => {
    if (chosenRun() < 0) return test.growth;
    return Math.max(...test.runs[shownRun(test)].layers.map((layer) => (layer.was === null ? 0 : layer.now - layer.was)), -1e9);
  };
  // What nobody could see may have grown without bound; what was lost weighs as much as it had.
  const urgent = (test) => {
    const kind = data.kinds[test.runs[shownRun(test)].verdict];
    if (kind.blind) return Infinity;
    return kind.loses ? Math.abs(growth(test)) : growth(test);
  };
  const SORTS = {
    growth: (a, b) => (urgent(a) === urgent(b) ? a.order - b.order : urgent(b) - urgent(a)),
    urgency: (a, b) => data.verdicts.indexOf(a.runs[shownRun(a)].verdict) - data.verdicts.indexOf(b.runs[shownRun(b)].verdict) || a.order - b.order,
    size: (a, b) => size(b) - size(a) || a.order - b.order,
    name: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  };

  function update() {
    const wanted = terms();
    const run = chosenRun();
    found = tests.filter((test) =>
      (run < 0 || test.runs[run]) &&
      (!pressed.size || pressed.has(shownVerdict(test))) &&
      (chosen === null || data.causes.list[chosen].orders.has(test.order)) &&
      wanted.every((term) => test.hay.includes(term)));
    found.sort(SORTS[byId("sort").value]);
    countChips(run);
    byId("list").replaceChildren();
    shown = 0;
    extend();
    byId("empty").hidden = found.length > 0;
    const listed = found.length === tests.length
      ? plural(tests.length, "test")
      : `${found.length.toLocaleString("en")} of ${plural(tests.length, "test")}`;
    byId("status").textContent = data.unlisted
      ? `${listed}; ${data.unlisted.toLocaleString("en")} more passed and are not listed`
      : listed;
  }

  function extend() {
    const next = found.slice(shown, shown + CHUNK);
    byId("list").append(...next.map((test) => {
      const key = `${shownRun(test)} ${test.order}`;
      if (!rows.has(key)) rows.set(key, row(test));
      return rows.get(key);
    }));
    shown += next.length;
    const rest = found.length - shown;
    byId("more").hidden = rest === 0;
    byId("more").textContent = `Show ${Math.min(CHUNK, rest)} more of ${rest.toLocaleString("en")}`;
  }

  // ---- the page

  function intro() {
    const lines = data.runs.map((run) => {
      const shards = run.reports > 1 ? `${run.reports} reports` : "";
      const facts = [shards, ...run.facts].filter(Boolean).join(" \u00b7 ");
      return make("p", {}, make("b", {}, run.label), make("span", { class: "facts" }, facts));
    });
    if (data.noVerdict) lines.unshift(make("p", {}, make("b", {}, `No verdict: ${data.noVerdict}`)));
    const ofRuns = (key) => [...new Set(data.runs.flatMap((run) => run[key]))];
    for (const [names, word, title] of [
      [data.beside.problems, "report", "cannot be judged"],
      [data.beside.missing, "test", "missing"],
      [ofRuns("unmeasured"), "test", "not measured"],
      [ofRuns("ungated"), "test", "not gated"],
      [ofRuns("stale"), "test", "stale in the baselines"],
    ]) {
      if (names.length) {
        lines.push(fold("names", `${plural(names.length, word)} ${title}`, make("ul", {}, names.map((name) => make("li", { class: "mono" }, name)))));
      }
    }
    byId("runs").append(...lines);
  }

  // ---- what makes tests red, each cause once

  const OPEN = 5;
  function causes() {
    const { headline, list, rest } = data.causes;
    if (!headline) return;
    const rows = list.map(rootCause);
    const box = make("div", { class: "box" }, rows.slice(0, OPEN));
    const left = rows.length - OPEN + rest;
    if (left > 0) {
      const more = rest ? make("p", { class: "at" }, `and ${plural(rest, "more cause")}`) : "";
      box.append(fold("fold", plural(left, "more cause"), [rows.slice(OPEN), more]));
    }
    byId("causes-title").textContent = headline;
    byId("causes").append(box);
    byId("causes").hidden = false;
  }

  function rootCause(one, number) {
    one.orders = new Set(one.tests);
    const button = make("button", { type: "button", "aria-pressed": "false" }, plural(one.red, "test"));
    button.addEventListener("click", () => {
      choose(chosen === number ? null : number);
      update();
      if (chosen !== null) byId("filters").scrollIntoView({ block: "start" });
    });
    const seen = make("div", { class: "seen" }, button,
      one.graphs ? make("div", {}, `${plural(one.graphs, "graph")} more`) : "");
    const body = make("div", { class: "body" });
    if (one.at !== null) {
      const at = data.frames[one.at];
      body.append(make("p", { class: "at" }, where(at)), source({ at }, { word: "new" }));
    }
    if (one.try) body.append(make("p", { class: "fix" }, make("b", {}, "Fix: "), one.try));
    body.append(make("p", { class: "at" }, one.red > 1 ? `${one.first}, and ${one.red - 1} more` : one.first));
    return make("article", { class: "cause" }, make("h3", {}, one.title), seen, body);
  }

  function choose(number) {
    chosen = number;
    document.querySelectorAll("#causes button").forEach((button, at) => {
      button.setAttribute("aria-pressed", String(at === number));
    });
  }

  function chips() {
    for (const verdict of data.verdicts) {
      const chip = make("button", { type: "button", "aria-pressed": "false" }, verdict, make("b", {}));
      chip.addEventListener("click", () => {
        if (!pressed.delete(verdict)) pressed.add(verdict);
        chip.setAttribute("aria-pressed", String(pressed.has(verdict)));
        update();
      });
      byId("chips").append(chip);
    }
  }

  // A chip counts the rows of the chosen run that it leaves.
  function countChips(run) {
    const verdicts = tests.filter((test) => run < 0 || test.runs[run]).map(shownVerdict);
    data.verdicts.forEach((verdict, number) => {
      const chip = byId("chips").children[number];
      const count = verdicts.filter((shown) => shown === verdict).length;
      chip.hidden = !count && !pressed.has(verdict);
      chip.lastChild.textContent = count.toLocaleString("en");
    });
  }

  function clear() {
    pressed.clear();
    for (const chip of byId("chips").children) chip.setAttribute("aria-pressed", "false");
    choose(null);
    byId("query").value = "";
    byId("run").value = "-1";
    update();
    byId("query").focus();
  }

  function keys(event) {
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.matches(".test > summary")) {
      const item = event.target.closest("li");
      const next = event.key === "ArrowDown" ? item.nextElementSibling : item.previousElementSibling;
      if (next) {
        event.preventDefault();
        next.querySelector("summary").focus();
      }
    }
  }

  function openLinked() {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    const at = found.findIndex((test) => test.id === id);
    if (at < 0) return;
    while (shown <= at) extend();
    const details = byId("list").children[at].querySelector("details");
    details.open = true;
    details.scrollIntoView({ block: "center" });
    details.querySelector("summary").focus();
  }

  byId("run").append(make("option", { value: "-1" }, BEFORE === null ? "worst of each test" : "the later run"),
    ...data.runs.map((run, number) => make("option", { value: number }, run.label)));
  byId("run-label").hidden = data.runs.length < 2;
  byId("sort").addEventListener("change", update);
  byId("run").addEventListener("change", update);
  byId("clear").addEventListener("click", clear);
  listen(update, extend);
  document.addEventListener("keydown", keys);
  extendWhenSeen(extend);
  intro();
  causes();
  chips();
  update();
  openLinked();
