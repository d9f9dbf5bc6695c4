  const CHUNK = 100, BOXES = 30;
  const MEANT = new Set(data.meant), AGAIN = new Set(data.again);
  const frame = (number) => (number === null ? null : data.frames[number]);

  // ---- causes

  const WORDS = { "+": "new", "-": "gone", "~": "", "?": "" };

  function cause(change) {
    const at = frame(change.at);
    const body = make("div", { class: "body" });
    if (at) body.append(make("p", { class: "at" }, where(at)), code(at.code, change.sign === "+" ? "" : "known"));
    if (data.texts[change.was]) body.append(make("p", { class: "note" }, `before: ${data.texts[change.was]}`));
    if (change.owner) body.append(make("p", { class: "note" }, change.owner));
    if (data.texts[change.try]) body.append(make("p", { class: "fix" }, make("b", {}, "Fix: "), data.texts[change.try]));
    if (change.with.length) body.append(fold("more", `With it, ${plural(change.with.length, "place")}`, change.with.map((text) => make("p", { class: "at" }, text))));
    if (change.stack.length) {
      body.append(fold("more", `Called from ${plural(change.stack.length, "frame")}`,
        [...change.stack].reverse().map((number) => make("p", { class: "at" }, where(frame(number))))));
    }
    const names = change.tests.map((text) => make("p", { class: "at" }, text));
    if (change.more) names.push(make("p", { class: "at" }, `and ${change.more.toLocaleString("en")} more`));
    body.append(fold("more", plural(change.tests.length + change.more, "test"), names));
    return make("article", { class: "cause" },
      make("h4", {}, make("span", { class: `tag ${WORDS[change.sign]}` }, change.sign), data.texts[change.name]),
      make("div", { class: change.growth > 0 ? "seen worse" : change.growth < 0 ? "seen better" : "seen" }, change.amount), body);
  }

  function unsure(pair) {
    const side = (change) => {
      const at = frame(change.at);
      return make("section", {}, make("p", { class: "at" }, `${change.sign} ${at ? where(at) : ""}`), at ? code(at.code, "known") : "",
        make("p", { class: "tally" }, [change.amount, change.owner].filter(Boolean).join(" \u00b7 ")));
    };
    return make("article", { class: "cause" },
      make("h4", {}, make("span", { class: "tag" }, "?"), data.texts[pair.after.name]),
      make("div", { class: "body" }, make("p", { class: "note" }, pair.why),
        make("div", { class: "side" }, side(pair.before), side(pair.after))));
  }

  function hay(change) {
    return [data.texts[change.name], data.texts[change.was], change.owner, ...wordsOf(frame(change.at)), ...change.tests].join("\n").toLowerCase();
  }

  const groups = data.sections.map(({ title, changes }) => ({
    title, items: changes.map((change) => ({ hay: hay(change), build: () => cause(change) })),
  }));
  if (data.moved.length) {
    groups.push({
      title: "unclear",
      items: data.moved.map((pair) => ({ hay: `${hay(pair.before)}\n${hay(pair.after)}`, build: () => unsure(pair) })),
    });
  }

  function showGroup({ title, items }, fits) {
    const found = items.filter(fits);
    if (!found.length) return "";
    const list = make("div", { class: "group" }, found.slice(0, CHUNK).map((item) => item.build()));
    if (found.length > CHUNK) {
      const rest = make("button", { type: "button" }, `Show ${(found.length - CHUNK).toLocaleString("en")} more`);
      rest.addEventListener("click", () => rest.replaceWith(...found.slice(CHUNK).map((item) => item.build())));
      list.append(rest);
    }
    return make("section", {}, make("h2", {}, `${title}: ${plural(found.length, "place")}`), list);
  }

  // ---- tests

  function strip(test, side, layer, count, most) {
    const graphs = test.strips[side][layer];
    const line = make("span", { class: "strip", "aria-hidden": "true" });
    graphs.slice(0, most).forEach(({ name, cause: reason, ops, row }, number) => {
      const why = row === null ? null : test.rows[row];
      const alone = why !== null && !why[SIDES[1 - side]];
      if (!MEANT.has(reason) && !AGAIN.has(reason) && number > 0) {
        line.append(make("i", { class: alone && side === 1 ? "cut new" : "cut", title: why ? [reason, ...named(why[SIDES[side]])].join(" ") : reason }));
      }
      const box = make("i", { class: AGAIN.has(reason) ? "g again" : "g", title: `${name}: ${reason}${ops === null ? "" : `, ${plural(ops, "op")}`}` });
      box.style.width = `${Math.min(52, Math.round(8 + 4 * Math.log2(1 + (ops ?? 1))))}px`;
      line.append(box);
    });
    const listed = Math.min(graphs.length, most);
    if (listed < count) line.append(make("span", { class: "rest" }, listed ? `+${count - listed}` : plural(count, "graph")));
    return line;
  }

  const SIDES = ["before", "after"];
  const named = (cell) => (cell ? [cell.id, data.texts[cell.reason]].filter(Boolean) : []);

  function counts(was, now) {
    if (was === now) return make("span", { class: "count" }, `${now}`);
    return make("span", { class: "count" }, `${was} \u2192 ${now} `, make("span", { class: now > was || !now ? "worse" : "better" }, signed(now - was)));
  }

  function row(test) {
    const split = test.id.indexOf("::");
    const name = make("span", { class: "name" });
    if (split > 0) name.append(make("span", { class: "file" }, test.id.slice(0, split)));
    name.append(split > 0 ? test.id.slice(split + 2) : test.id);
    const word = test.lost ? "lost" : test.growth > 0 ? "more" : test.growth < 0 ? "fewer" : "changed";
    const kind = { lost: "lost", more: "over", fewer: "improved", changed: "changed" }[word];
    const spoken = test.layers.map(({ name, was, now }) => `${name}: ${was} before, ${now} after.`).join(" ");
    const grid = make("span", { class: "layers", role: "img", "aria-label": spoken });
    for (const { name: layer, was, now } of test.layers) {
      grid.append(make("span", { class: "layer" }, layer), strip(test, 1, layer, now, BOXES), counts(was, now));
    }
    const ops = test.layers.filter(({ ops }) => ops[0] !== ops[1]).map(({ name, ops }) => `${name} ${ops[0]} \u2192 ${ops[1]}`);
    const reasons = word === "changed" && ops.length ? [`captured operations ${ops.join(", ")}`] : [];
    for (const [what, was, now] of test.ran) if (was !== now) reasons.push(`${what} ${was} \u2192 ${now}`);
    const because = reasons.length ? make("span", { class: "because" }, reasons.join(", ")) : null;
    const details = make("details", { class: "test" },
      make("summary", {}, make("span", { class: `verdict ${kind}` }, word), name, grid, because));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(panel(test));
    });
    return make("li", {}, details);
  }

  function panel(test) {
    const node = make("div", { class: "panel" });
    node.append(make("div", { class: "side two" }, [0, 1].map((side) => make("section", {},
      make("h3", {}, data.sides[side][0], make("span", { class: "profile" }, test.profile.split(" -> ")[side] ?? test.profile)),
      make("div", { class: "layers" }, test.layers.map((layer) => {
        const ops = layer.ops[side], count = side ? layer.now : layer.was;
        return [make("span", { class: "layer" }, layer.name), strip(test, side, layer.name, count, 400),
          make("span", { class: "count" }, plural(count, "graph") + (ops === null ? "" : `, ${plural(ops, "op")}`))];
      })),
      make("p", { class: "tally" }, test.ran.map((one) => `${one[0]} ${one[1 + side]}`).join(" \u00b7 "))))));
    if (!test.rows.length) return node;
    const alike = (one, other) => JSON.stringify(one) === JSON.stringify(other);
    const cell = (values, other) => {
      if (!values) return make("td", { class: "absent" }, "\u2013");
      const same = other && alike(values, other);
      return make("td", { class: same ? "same" : null },
        make("b", {}, [...named(values), `\u00d7${values.times}`].join(" ")), values.graphs ? make("p", { class: "at" }, values.graphs) : "");
    };
    const state = ({ before, after }) => (!before ? 0 : !after ? 1 : alike(before, after) ? 3 : 2);
    const rows = [...test.rows].sort((a, b) => state(a) - state(b)).map((one) => {
      const { kind, at, before: was, after: now } = one;
      const place = frame(at);
      return make("tr", { class: ["isnew", "isgone", "", "known"][state(one)] },
        make("td", {}, kind, place ? make("p", { class: "at" }, where(place)) : "", place ? code(place.code, state(one) ? "known" : "") : ""),
        cell(was, now), cell(now, was));
    });
    const head = ["cause", "before", "after"].map((word) => make("th", { scope: "col" }, word));
    node.append(make("div", { class: "wide" }, make("table", { class: "beside" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows))));
    return node;
  }

  for (const test of data.tests) {
    const words = [test.id, test.profile];
    for (const { kind, at, before, after } of test.rows) words.push(kind, ...wordsOf(frame(at)), ...named(before), ...named(after));
    test.hay = words.join("\n").toLowerCase();
  }

  // ---- the lists

  let found = [], shown = 0;

  function update() {
    const wanted = terms();
    const fits = (one) => wanted.every((term) => one.hay.includes(term));
    byId("causes").replaceChildren(...groups.map((group) => showGroup(group, fits)).filter(Boolean));
    found = data.tests.filter(fits);
    shown = 0;
    byId("list").replaceChildren();
    byId("tests-title").hidden = !found.length;
    extend();
    const causes = groups.reduce((sum, group) => sum + group.items.filter(fits).length, 0);
    byId("status").textContent = `${plural(causes, "cause")}, ${plural(found.length, "test")}`;
  }

  function extend() {
    const next = found.slice(shown, shown + CHUNK);
    byId("list").append(...next.map(row));
    shown += next.length;
    byId("more").hidden = shown === found.length;
    byId("more").textContent = `Show more of ${(found.length - shown).toLocaleString("en")}`;
  }

  byId("runs").append(make("p", {}, make("b", {}, data.headline), data.totals.length ? ` \u00b7 ${data.totals.join(", ")}` : ""),
    ...data.sides.flatMap(([word, text, problems]) => [make("p", {}, make("b", {}, word), make("span", { class: "facts" }, text)),
      ...problems.map((problem) => make("p", { class: "note" }, problem))]));
  byId("asides").append(...data.asides.map(([title, items]) => fold("fold", title,
    [...items.slice(0, 1000), ...(items.length > 1000 ? [`and ${(items.length - 1000).toLocaleString("en")} more`] : [])]
      .map((text) => make("p", { class: "at" }, text)))));
  listen(update, extend);
  update();
