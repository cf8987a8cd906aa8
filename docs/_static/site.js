// What scrolls can be scrolled by keys.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".highlight pre, .formula, table.docutils").forEach((each) => { each.tabIndex = 0; });
});

// Statements are filtered by the heading above them (a paper or a section), verdict and words: entries that do not
// match are hidden, and headings that are left without any.
document.addEventListener("DOMContentLoaded", () => {
  const entries = [...document.querySelectorAll("section")].filter((each) => each.querySelector(":scope > .statement"));
  if (entries.length < 2) return;
  const headingOf = (entry) => entry.parentElement.querySelector(":scope > h1, :scope > h2").firstChild.textContent;
  const verdictOf = (entry) => entry.querySelector(":scope > .statement :is(strong, .sd-badge)").textContent;
  const above = entries.map((each) => each.parentElement);
  const groups = new Set(above.filter((each) => !each.querySelector(":scope > h1")));
  const values = (of) => [...new Set(entries.map(of))];
  const form = document.createElement("form");
  form.className = "statements-filter";
  const select = (label, all, options) => {
    const element = document.createElement("select");
    element.setAttribute("aria-label", label);
    [all, ...options].forEach((text, i) => element.add(new Option(text, i ? text : "")));
    if (options.length > 1) form.append(element);
    return element;
  };
  const heading = select("paper or section", "everywhere", values(headingOf));
  const verdict = select("verdict", "all verdicts", values(verdictOf));
  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = "Proposition 4";
  words.setAttribute("aria-label", "words of a statement");
  form.append(words);
  const show = () => {
    const sought = words.value.toLowerCase().trim();
    for (const entry of entries) {
      const own = [...entry.children].filter((each) => !each.matches(".sd-tab-set"));
      const text = own.map((each) => each.textContent).join(" ").toLowerCase();
      entry.hidden = !((!heading.value || headingOf(entry) === heading.value)
        && (!verdict.value || verdictOf(entry) === verdict.value) && text.includes(sought));
    }
    for (const group of groups) group.hidden = entries.every((each) => each.hidden || each.parentElement !== group);
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelector("h1").after(form);
});

// A slider moves through the steps of an algorithm; without this all of them are shown.
document.addEventListener("DOMContentLoaded", () => {
  for (const frames of document.querySelectorAll(".frames")) {
    const figures = [...frames.querySelectorAll("figure")];
    const label = document.createElement("label");
    const slider = document.createElement("input");
    const count = document.createElement("output");
    Object.assign(slider, { type: "range", min: 1, max: figures.length, value: 1 });
    const show = () => {
      count.textContent = `${slider.value} of ${figures.length}`;
      slider.setAttribute("aria-valuetext", figures[slider.value - 1].querySelector("figcaption").textContent);
      figures.forEach((figure, i) => { figure.hidden = i !== slider.value - 1; });
    };
    slider.addEventListener("input", show);
    label.append("Step", slider, count);
    frames.prepend(label);
    show();
  }
});

// Levels and names that the theme leaves out, for who listens to a page.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".caption[role=heading]").forEach((each) => { each.setAttribute("aria-level", "2"); });
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "all pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "this page");
});
