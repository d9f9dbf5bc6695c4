"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const CHUNK = 40, WIDTH = 520, HEIGHT = 120, LEFT = 34, RIGHT = 62, TOP = 12, BOTTOM = 22;
  const SVG = "http://www.w3.org/2000/svg";

  // Everything from outside goes in as text: nothing here writes HTML.
  function make(tag, attributes = {}, ...children) {
    const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children.flat());
    return node;
  }
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const day = (time) => new Date(time * 1000).toISOString().slice(0, 10);

  const times = data.commits.map(([, time]) => time);
  const first = Math.min(...times), last = Math.max(...times);
  const across = (time) => LEFT + ((time - first) / Math.max(1, last - first)) * (WIDTH - LEFT - RIGHT);
  const peak = (series) => Math.max(1, ...series.points.flatMap(([, graphs]) => graphs ?? []));
  const deepest = (graphs) => (graphs ? Math.max(...graphs) : 0);

  function plot(series) {
    const top = peak(series);
    const up = (count) => HEIGHT - BOTTOM - (count / top) * (HEIGHT - TOP - BOTTOM);
    const svg = make("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spoken(series) });
    for (const count of new Set([0, top])) {
      svg.append(make("svg:line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: up(count), y2: up(count) }),
        make("svg:text", { x: LEFT - 7, y: up(count) + 4, "text-anchor": "end" }, `${count}`));
    }
    svg.append(make("svg:text", { x: LEFT, y: HEIGHT - 5 }, day(first)),
      make("svg:text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, day(last)));
    const ends = [];
    data.layers.forEach((layer, index) => {
      if (!series.points.some(([, graphs]) => graphs && graphs[index])) return;
      svg.append(make("svg:path", { class: `l-${layer}`, d: steps(series, index, up) }));
      for (const [commit, graphs] of series.points) {
        if (graphs) svg.append(dot(layer, commit, graphs[index], up));
      }
      const end = series.points.at(-1)[1];
      if (end) ends.push([up(end[index]), `${layer} ${end[index]}`]);
    });
    // Labels of lines that end close to each other are moved apart.
    ends.sort(([a], [b]) => a - b);
    let free = 0;
    for (const [y, text] of ends) {
      free = Math.max(y + 4, free);
      svg.append(make("svg:text", { x: WIDTH - RIGHT + 8, y: free }, text));
      free += 12;
    }
    return svg;
  }

  function steps(series, index, up) {
    let path = "", drawing = false;
    series.points.forEach(([commit, graphs], number) => {
      const next = series.points[number + 1];
      const from = across(times[commit]), to = next ? across(times[next[0]]) : WIDTH - RIGHT;
      if (graphs) path += `${drawing ? "L" : "M"}${from} ${up(graphs[index])}L${to} ${up(graphs[index])}`;
      drawing = graphs !== null;
    });
    return path;
  }

  function dot(layer, commit, count, up) {
    const [hash, time, author, subject] = data.commits[commit];
    return make("svg:circle", { class: `l-${layer}`, cx: across(time), cy: up(count), r: 3.5 },
      make("svg:title", {}, `${layer} ${count}\n${day(time)} ${hash} ${author}\n${subject}`));
  }

  const words = (graphs) => (graphs === null ? "gone"
    : data.layers.map((layer, index) => (graphs[index] ? `${layer} ${graphs[index]}` : "")).filter(Boolean).join(", ") || "no graphs");

  function spoken(series) {
    return `${series.points.length - 1} changes: ` + series.points.map(([commit, graphs]) => `${day(times[commit])} ${words(graphs)}`).join("; ");
  }

  function item(series) {
    const rows = series.points.map(([commit, graphs]) => {
      const [hash, time, author, subject] = data.commits[commit];
      return make("tr", {}, make("td", { class: "day" }, day(time)), make("td", { class: "mono" }, hash || "now"), make("td", {}, words(graphs)),
        make("td", {}, subject), make("td", {}, author));
    });
    const head = make("thead", {}, make("tr", {}, ["date", "commit", "graphs", "subject", "author"].map((word) => make("th", { scope: "col" }, word))));
    return make("li", {},
      make("h2", {}, series.id, make("span", { class: "profile" }, series.profile)),
      plot(series),
      make("details", { class: "fold" }, make("summary", {}, plural(series.points.length, "commit")),
        make("div", { class: "wide" }, make("table", {}, head, make("tbody", {}, rows)))));
  }

  data.series.forEach((series) => {
    series.hay = [series.id, series.profile, ...series.points.map(([commit]) => data.commits[commit].filter((part) => typeof part === "string").join(" "))].join("\n").toLowerCase();
    const present = series.points.filter(([, graphs]) => graphs);
    series.growth = present.length ? deepest(series.points.at(-1)[1]) - deepest(present[0][1]) : 0;
  });
  const SORTS = {
    growth: (a, b) => b.growth - a.growth || b.points.length - a.points.length,
    latest: (a, b) => times[b.points.at(-1)[0]] - times[a.points.at(-1)[0]],
    changes: (a, b) => b.points.length - a.points.length,
    name: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  };
  let found = [], shown = 0;

  function update() {
    const terms = byId("query").value.toLowerCase().split(/\s+/).filter(Boolean);
    found = data.series.filter((series) => (byId("still").checked || series.points.length > 1) && terms.every((term) => series.hay.includes(term)));
    found.sort(SORTS[byId("sort").value]);
    byId("list").replaceChildren();
    shown = 0;
    extend();
    byId("status").textContent = `${plural(found.length, "plot")}`;
  }

  function extend() {
    const next = found.slice(shown, shown + CHUNK);
    byId("list").append(...next.map(item));
    shown += next.length;
    byId("more").hidden = shown === found.length;
    byId("more").textContent = `Show more of ${(found.length - shown).toLocaleString("en")}`;
  }

  const names = (list) => new Set(list.map((series) => series.id)).size;
  const moved = names(data.series.filter((series) => series.points.length > 1));
  byId("intro").textContent = `${plural(names(data.series), "test")} in ${plural(data.commits.length, "commit")}, ${moved.toLocaleString("en")} moved.`
    + (data.shallow ? " This clone was shallow: older commits are missing." : "");
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, type] of [["query", "input"], ["sort", "change"], ["still", "change"]]) byId(id).addEventListener(type, update);
  byId("more").addEventListener("click", extend);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select")) {
      event.preventDefault();
      byId("query").focus();
    }
  });
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !byId("more").hidden) extend();
  }, { rootMargin: "600px" }).observe(byId("more"));
  update();
})();
