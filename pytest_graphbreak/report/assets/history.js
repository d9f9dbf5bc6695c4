  const CHUNK = 40, HEIGHT = 124, LEFT = 34, RIGHT = 74, TOP = 12, BOTTOM = 24, DAY = 74, ROWS = 20;
  const narrow = () => Math.max(240, Math.min(520, document.documentElement.clientWidth - 62));

  // Commits are side by side, each in a place of its own: those of one day, too.
  let width = narrow();
  const right = () => width - RIGHT;
  const across = (commit) => LEFT + (commit / Math.max(1, data.commits.length - 1)) * (right() - LEFT);
  const day = (commit) => data.commits[commit].date;
  const peak = (series) => Math.max(1, ...series.points.flatMap(({ graphs }) => Object.values(graphs ?? {})));
  const deepest = (graphs) => Math.max(0, ...Object.values(graphs ?? {}));

  // The first day and the last, and between them as many as there is room for.
  function days() {
    const last = data.commits.length - 1;
    const found = [[LEFT + DAY / 2, day(0)]];
    if (day(last) === day(0)) return found;
    let free = LEFT + DAY + 10;
    for (let commit = 1; commit < last; commit++) {
      const at = across(commit);
      if (day(commit - 1) === day(commit) || day(commit) === day(last)) continue;
      if (at - DAY / 2 < free || at + DAY / 2 > right() - DAY - 10) continue;
      found.push([at, day(commit)]);
      free = at + DAY / 2 + 10;
    }
    return [...found, [right() - DAY / 2, day(last)]];
  }

  function plot(series, word = "graphs") {
    const top = peak(series);
    const up = (count) => HEIGHT - BOTTOM - (count / top) * (HEIGHT - TOP - BOTTOM);
    const svg = make("svg:svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": spoken(series, word) });
    for (const count of new Set([0, top])) {
      svg.append(make("svg:line", { class: "axis", x1: LEFT, x2: right(), y1: up(count), y2: up(count) }),
        make("svg:text", { x: LEFT - 7, y: up(count) + 4, "text-anchor": "end" }, `${count}`));
    }
    svg.append(...days().map(([at, text]) => make("svg:text", { x: at, y: HEIGHT - 5, "text-anchor": "middle" }, text)));
    const ends = [];
    for (const layer of data.layers) {
      if (!series.points.some(({ graphs }) => graphs && graphs[layer])) continue;
      svg.append(make("svg:path", { class: `l-${layer}`, d: steps(series, layer, up) }));
      for (const { commit, graphs } of series.points) {
        if (isKnown(graphs, layer)) svg.append(dot(layer, commit, graphs[layer] ?? 0, up));
      }
      const end = series.points.at(-1).graphs;
      if (isKnown(end, layer)) ends.push({ y: up(end[layer] ?? 0), text: `${layer} ${end[layer] ?? 0}` });
    }
    // Labels of lines that end close to each other are moved apart.
    ends.sort((a, b) => a.y - b.y);
    let free = 0;
    for (const { y, text } of ends) {
      free = Math.max(y + 4, free);
      svg.append(make("svg:text", { x: right() + 8, y: free }, text));
      free += 13;
    }
    return svg;
  }

  // A layer that is not there has 0 graphs; null stands for what was not recorded.
  const isKnown = (graphs, layer) => graphs !== null && graphs[layer] !== null;

  // What ran as plots of its own, where it moved.
  function ranPlots(series) {
    return ["executions", "reads"].flatMap((wanted) => {
      const points = series.points.map(({ commit, graphs, ran }) => {
        const count = (layer) => ran.find((one) => one.what === wanted && one.layer === layer)?.now ?? null;
        return { commit, graphs: graphs && Object.fromEntries(data.layers.map((layer) => [layer, count(layer)])) };
      });
      const moved = data.layers.some((layer) => new Set(points.map(({ graphs }) => graphs?.[layer]).filter((count) => count != null)).size > 1);
      return moved ? [make("p", { class: "tally" }, wanted), plot({ points }, wanted)] : [];
    });
  }

  function steps(series, layer, up) {
    let path = "", drawing = false;
    series.points.forEach(({ commit, graphs }, number) => {
      const next = series.points[number + 1];
      const from = across(commit), to = next ? across(next.commit) : right();
      const known = isKnown(graphs, layer);
      if (known) path += `${drawing ? "L" : "M"}${from} ${up(graphs[layer] ?? 0)}L${to} ${up(graphs[layer] ?? 0)}`;
      drawing = known;
    });
    return path;
  }

  function dot(layer, commit, count, up) {
    const { hash, date, author, subject } = data.commits[commit];
    return make("svg:circle", { class: `l-${layer}`, cx: across(commit), cy: up(count), r: 3.5 },
      make("svg:title", {}, `${layer} ${count}\n${date} ${hash} ${author}\n${subject}`));
  }

  const words = (graphs, word = "graphs") => (graphs === null ? "gone"
    : data.layers.map((layer) => (graphs[layer] ? `${layer} ${graphs[layer]}` : "")).filter(Boolean).join(", ") || `no ${word}`);

  const movedRuns = (ran) => ran.filter(({ was, now }) => was !== null && was !== now);
  const ranWords = (ran) => ran.map(({ what, layer, was, now }) => `, ${layer} ${what} ${was === null || was === now ? now : `${was} \u2192 ${now}`}`).join("");

  function spoken(series, word) {
    return `${series.points.length - 1} changes: ` + series.points.map(({ commit, graphs }) => `${day(commit)} ${words(graphs, word)}`).join("; ");
  }

  // ---- causes: what moved in a step, each with its place

  const sign = ({ was, now }) => (now > was ? "+" : "\u2212");
  const placeText = ({ place, was, now }) => `${data.places[place].name}${was && now ? ` ${was} \u2192 ${now}` : ""}`;

  function cause(shift, more) {
    const { where, code } = data.places[shift.place];
    return make("div", { class: `shift ${shift.now > shift.was ? "worse" : "better"}` },
      make("b", {}, `${sign(shift)} `), placeText(shift), more ? make("span", { class: "profile" }, more) : "",
      make("p", { class: "at" }, where), code ? make("pre", { class: "source" }, make("span", { class: "here known" }, code)) : "");
  }

  // A commit: on this page, with all that it moved, and where its host shows it.
  function onPage(commit) {
    const link = make("a", { href: `#commit-${commit}`, class: "mono" }, data.commits[commit].hash || "now");
    link.addEventListener("click", (event) => {
      event.preventDefault();
      showCommit(commit);
    });
    return link;
  }

  function outside({ hash, full }) {
    return full && data.address ? make("a", { class: "mono", href: data.address + full, rel: "noreferrer" }, hash) : hash || "now";
  }

  function item(series) {
    const rows = series.points.map(({ commit, graphs, shifts, ran }) => {
      const { date, author, subject } = data.commits[commit];
      return make("tr", {}, make("td", { class: "day" }, date), make("td", { class: "mono" }, onPage(commit)), make("td", {}, words(graphs) + ranWords(ran.filter(({ was, now }) => was || now)), shifts.map((shift) => cause(shift))),
        make("td", {}, subject), make("td", {}, author));
    });
    const head = make("thead", {}, make("tr", {}, ["date", "commit", "counts", "subject", "author"].map((word) => make("th", { scope: "col" }, word))));
    return make("li", {},
      make("h2", {}, series.id, make("span", { class: "profile" }, series.profile)),
      plot(series),
      ...ranPlots(series),
      make("details", { class: "fold" }, make("summary", {}, plural(series.points.length, "commit")),
        make("div", { class: "wide" }, make("table", {}, head, make("tbody", {}, rows)))));
  }

  // ---- by commit

  // How much graphs grew, or what runs where graphs did not.
  const grew = ({ before, after, ran }) => deepest(after) - deepest(before) || (ran.length && Math.max(...ran.map(({ was, now }) => now - was)));

  // What each commit moved, and how many tests it only recorded.
  const moves = data.commits.map((commit) => ({ commit, moved: [], recorded: new Set(), causes: new Map() }));
  data.series.forEach((series) => series.points.forEach(({ commit, graphs, shifts, ran }, number) => {
    if (!number) moves[commit].recorded.add(series.id);
    else moves[commit].moved.push({ series, before: series.points[number - 1].graphs, after: graphs, ran: movedRuns(ran) });
    for (const shift of shifts) {
      const key = `${shift.place} ${sign(shift)}`;
      const known = moves[commit].causes.get(key);
      if (known) known.tests += 1;
      else moves[commit].causes.set(key, { shift, tests: 1 });
    }
  }));
  for (const one of moves) {
    one.moved.sort((a, b) => grew(b) - grew(a) || (a.series.id < b.series.id ? -1 : 1));
    one.causes = [...one.causes.values()].sort((a, b) => b.tests - a.tests);
    one.hay = [...Object.values(one.commit), ...one.causes.flatMap(({ shift }) => Object.values(data.places[shift.place])), ...one.moved.flatMap(({ series }) => [series.id, series.profile])].join("\n").toLowerCase();
  }

  function step(before, after, ran) {
    if (!after) return "gone";
    return (data.layers.map((layer) => {
      const was = before?.[layer] ?? 0, now = after[layer] ?? 0;
      return was || now ? `${layer} ${was === now ? now : `${was} \u2192 ${now}`}` : "";
    }).filter(Boolean).join(", ") || "no graphs") + ranWords(ran);
  }

  function commitItem({ commit, moved, recorded, causes }) {
    const { date, author, subject } = commit;
    const row = (one) => {
      const { series, before, after, ran } = one;
      const more = grew(one);
      return make("tr", {},
        make("td", { class: after && more <= 0 ? (more ? "better" : null) : "worse" }, step(before, after, ran)),
        make("td", { class: "mono" }, series.id), make("td", {}, series.profile));
    };
    const head = () => make("thead", {}, make("tr", {}, ["counts", "test", "profile"].map((word) => make("th", { scope: "col" }, word))));
    const table = (rows) => make("div", { class: "wide" }, make("table", {}, head(), make("tbody", {}, rows.map(row))));
    const rest = moved.slice(ROWS);
    const listed = (some) => some.map(({ shift, tests }) => cause(shift, plural(tests, "test")));
    return make("li", { id: `commit-${data.commits.indexOf(commit)}` },
      make("h2", {}, subject),
      make("p", { class: "tally" }, `${date} \u00b7 `, outside(commit), author ? ` \u00b7 ${author}` : ""),
      ...listed(causes.slice(0, ROWS)),
      ...(causes.length > ROWS ? [make("details", { class: "fold" }, make("summary", {}, plural(causes.length - ROWS, "more cause")), listed(causes.slice(ROWS)))] : []),
      ...(moved.length ? [table(moved.slice(0, ROWS))] : []),
      ...(rest.length ? [make("details", { class: "fold" }, make("summary", {}, `${rest.length.toLocaleString("en")} more`), table(rest))] : []),
      ...(recorded.size ? [make("p", { class: "tally" }, `${plural(recorded.size, "test")} recorded`)] : []));
  }

  // ---- the list

  data.series.forEach((series) => {
    series.hay = [series.id, series.profile, ...series.points.flatMap(({ shifts }) => shifts.flatMap(({ place }) => Object.values(data.places[place]))), ...series.points.map(({ commit }) => Object.values(data.commits[commit]).join(" "))].join("\n").toLowerCase();
    const present = series.points.filter(({ graphs }) => graphs);
    series.growth = present.length ? deepest(series.points.at(-1).graphs) - deepest(present[0].graphs) : 0;
  });
  const SORTS = {
    growth: (a, b) => b.growth - a.growth || b.points.length - a.points.length,
    latest: (a, b) => b.points.at(-1).commit - a.points.at(-1).commit,
    changes: (a, b) => b.points.length - a.points.length,
    name: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  };
  let found = [], shown = 0;
  const byCommit = () => byId("view").value === "commits";

  function update() {
    const wanted = terms();
    const fits = (one) => wanted.every((term) => one.hay.includes(term));
    found = byCommit() ? moves.filter(fits).reverse()
      : data.series.filter((series) => (byId("still").checked || series.points.length > 1) && fits(series));
    if (!byCommit()) found.sort(SORTS[byId("sort").value]);
    for (const id of ["sort-label", "still-label"]) byId(id).hidden = byCommit();
    byId("list").classList.toggle("commits", byCommit());
    byId("list").replaceChildren();
    shown = 0;
    extend();
    byId("status").textContent = plural(found.length, byCommit() ? "commit" : "plot");
  }

  function extend() {
    const next = found.slice(shown, shown + CHUNK);
    byId("list").append(...next.map(byCommit() ? commitItem : item));
    shown += next.length;
    byId("more").hidden = shown === found.length;
    byId("more").textContent = `Show more of ${(found.length - shown).toLocaleString("en")}`;
  }

  // The commits as a list, down to one of them.
  function showCommit(commit) {
    byId("view").value = "commits";
    byId("query").value = "";
    update();
    while (!byId(`commit-${commit}`) && shown < found.length) extend();
    byId(`commit-${commit}`)?.scrollIntoView();
  }

  const names = (list) => new Set(list.map((series) => series.id)).size;
  const moved = names(data.series.filter((series) => series.points.length > 1));
  byId("intro").textContent = `${plural(names(data.series), "test")} in ${plural(data.commits.length, "commit")}, ${moved.toLocaleString("en")} moved.`
    + (data.shallow ? " This clone was shallow: older commits are missing." : "");
  for (const [id, type] of [["sort", "change"], ["still", "change"], ["view", "change"]]) byId(id).addEventListener(type, update);
  addEventListener("resize", () => {
    if (narrow() === width) return;
    width = narrow();
    update();
  });
  listen(update, extend);
  extendWhenSeen(extend);
  update();
