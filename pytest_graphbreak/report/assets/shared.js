  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);

  // Everything from outside goes in as text: nothing here writes HTML.
  function make(tag, attributes = {}, ...children) {
    const node = tag.startsWith("svg:")
      ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) node.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== ""));
    return node;
  }
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const signed = (count) => (count > 0 ? `+${count}` : `${count}`).replace("-", "\u2212");
  const where = (frame) => `${frame.file}${frame.line ? `:${frame.line}` : ""}${frame.function ? ` in ${frame.function}` : ""}`;
  const wordsOf = (frame) => (frame ? [frame.file, `${frame.line}`, frame.function, frame.code] : []);
  const fold = (kind, title, content) => make("details", { class: kind }, make("summary", {}, title), content);
  const code = (text, kind) => (text ? make("pre", { class: "source" }, make("span", { class: `here ${kind}` }, text)) : "");

  // The words that are looked for, in lower case.
  const terms = () => byId("query").value.toLowerCase().split(/\s+/).filter(Boolean);

  // What is typed, the button for more, and the key that goes to the search.
  function listen(update, extend) {
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("query").addEventListener("input", update);
    byId("more").addEventListener("click", extend);
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        byId("query").focus();
      }
    });
  }

  // More of the list is shown before its end is reached.
  function extendWhenSeen(extend) {
    new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting) && !byId("more").hidden) extend();
    }, { rootMargin: "600px" }).observe(byId("more"));
  }
