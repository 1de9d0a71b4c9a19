// The chart: marks on the standing SVG, its zoom, and its states as links.
const svgNS = "http://www.w3.org/2000/svg";

// legible is the least scale at which a page opens a chart. Its labels of 11 pixels are then 10 pixels high.
const legible = 10 / 11;

function element(tag, attributes) {
  const made = document.createElementNS(svgNS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export class Chart {
  constructor(panel) {
    this.canvas = panel.querySelector(".canvas");
    this.more = panel.querySelector(".more");
    this.svg = this.canvas.querySelector("svg");
    this.width = this.svg.viewBox.baseVal.width;
    this.scale = 1;
    this.states = new Map([...this.svg.querySelectorAll(".state[data-path]")].map((g) => [g.dataset.path, g]));
    this.edges = [...this.svg.querySelectorAll(".edge[data-from]")];
    this.lastEdge = this.edges.at(-1)?.nextSibling ?? null;
    this.badges = new Map();
    const tools = panel.querySelector(".tools");
    tools.hidden = false;
    tools.addEventListener("click", (event) => this.zoom(event.target.closest("[data-zoom]")?.dataset.zoom));
    tools.querySelector("[data-zoom=active]").hidden = !!document.querySelector("[data-machine]");
    this.split = panel.closest(".split");
    this.open();
    addEventListener("resize", () => this.zoomed || this.open());
    this.canvas.addEventListener("scroll", () => this.cue(), { passive: true });
    new ResizeObserver(() => this.cue()).observe(this.canvas);
    this.link();
  }

  // open shows the whole width, but keeps the text legible. If there is too little room, the column beside moves below.
  open() {
    this.split.classList.remove("stacked");
    this.split.classList.toggle("stacked", this.room() < legible);
    this.fit(legible);
  }

  // room is the scale at which the canvas shows the whole width.
  room() {
    return (this.canvas.clientWidth - 24) / this.width;
  }

  fit(least) {
    this.resize(Math.min(1, Math.max(least, this.room())));
  }

  // cue says in which directions the canvas hides more than the margin of the chart.
  cue() {
    const { scrollLeft: left, scrollTop: top, clientWidth, clientHeight, scrollWidth, scrollHeight } = this.canvas;
    const margin = 24;
    const hidden = { "←": left, "↑": top, "↓": scrollHeight - clientHeight - top, "→": scrollWidth - clientWidth - left };
    const arrows = Object.keys(hidden).filter((arrow) => hidden[arrow] > margin).join(" ");
    this.more.textContent = arrows && `scroll for more ${arrows}`;
    this.more.parentNode.dataset.more = arrows;
  }

  resize(scale) {
    this.scale = Math.min(3, Math.max(0.2, scale));
    this.svg.setAttribute("width", Math.round(this.width * this.scale));
    this.svg.setAttribute("height", Math.round(this.svg.viewBox.baseVal.height * this.scale));
    this.cue();
  }

  zoom(how) {
    this.zoomed ||= ["in", "out", "fit"].includes(how);
    if (how === "in") this.resize(this.scale * 1.25);
    if (how === "out") this.resize(this.scale / 1.25);
    if (how === "fit") this.fit(0);
    if (how === "active") this.reveal();
  }

  // reveal scrolls the canvas to the innermost active states.
  reveal({ unlessVisible = false } = {}) {
    if (document.querySelector("[data-machine]")) return;
    const active = [...this.svg.querySelectorAll(".state.active:not(.compound, .parallel)")];
    const box = active.at(-1)?.getBoundingClientRect();
    const first = active[0]?.getBoundingClientRect();
    if (!first) return;
    const frame = this.canvas.getBoundingClientRect();
    const visible = first.left >= frame.left && first.right <= frame.right && first.top >= frame.top && first.bottom <= frame.bottom;
    if (unlessVisible && visible) return;
    const middle = { x: (first.left + first.right) / 2, y: (first.top + (active.length > 1 && box.bottom - first.top < frame.height ? box.bottom : first.bottom)) / 2 };
    const smooth = matchMedia("(prefers-reduced-motion: no-preference)").matches;
    this.canvas.scrollBy({ left: middle.x - (frame.left + frame.right) / 2, top: middle.y - (frame.top + frame.bottom) / 2, behavior: smooth ? "smooth" : "instant" });
  }

  // read shows the marks that are in the page.
  read() {
    const first = this.shown === undefined;
    const holder = document.querySelector("[data-marks]:not(tr)");
    if (!holder || holder.dataset.marks === this.shown) return;
    this.shown = holder.dataset.marks;
    this.mark(JSON.parse(this.shown));
    if (first) this.reveal({ unlessVisible: true });
  }

  mark({ active = [], visited = [], taken = [], parked = [], counts = {} }) {
    const within = (path, state) => path === state || path.startsWith(`${state}.`);
    for (const [path, g] of this.states) {
      g.classList.toggle("active", path !== "" && active.some((a) => within(a, path)));
      g.classList.toggle("visited", path !== "" && visited.some((v) => within(v, path)));
      this.badge(path, g, counts[path]);
    }
    this.toggle("taken", taken);
    this.toggle("parked", parked);
    for (const cell of document.querySelectorAll("[data-count]")) cell.textContent = counts[cell.dataset.count] ?? "";
    for (const body of document.querySelectorAll("tbody[data-state]")) {
      body.classList.toggle("active", active.some((a) => within(a, body.dataset.state)));
    }
  }

  highlight(keys) {
    this.toggle("hot", keys);
  }

  // toggle sets a class on the transitions with the keys and on their arrows, and removes it from all others.
  toggle(name, keys) {
    const chosen = new Set(keys);
    for (const edge of this.edges) {
      let any = false;
      for (const transition of edge.querySelectorAll(".transition")) {
        const is = chosen.has([edge.dataset.from, edge.dataset.to, transition.dataset.event].join("\n"));
        transition.classList.toggle(name, is);
        any ||= is;
      }
      edge.classList.toggle(name, any);
      if (any) edge.parentNode.insertBefore(edge, this.lastEdge); // above the other arrows
    }
  }

  // badge shows a count at the upper right corner of a state.
  badge(path, state, count) {
    let badge = this.badges.get(path);
    if (!count) {
      badge?.remove();
      this.badges.delete(path);
      return;
    }
    if (!badge) {
      const box = state.querySelector(".border").getBBox();
      badge = this.svg.appendChild(element("g", { class: "badge", transform: `translate(${box.x + box.width} ${box.y})` }));
      badge.append(element("rect", { class: "border", y: -8, height: 16, rx: 8 }), element("text", { class: "count", x: -2, y: 4, "text-anchor": "middle" }));
      this.badges.set(path, badge);
    }
    const [rect, text] = badge.children;
    if (text.textContent === String(count)) return;
    text.textContent = count;
    const width = 12 + 7 * text.textContent.length;
    rect.setAttribute("width", width);
    rect.setAttribute("x", -width / 2 - 2);
  }

  // link makes the states of a machine's chart links to their instances.
  link() {
    const holder = document.querySelector("[data-machine]");
    if (!holder) return;
    this.svg.setAttribute("role", "group"); // Assistive technology does not find links in an image.
    for (const [path, g] of this.states) {
      if (path === "") continue;
      g.setAttribute("role", "link");
      g.setAttribute("tabindex", "0");
      g.setAttribute("aria-label", `Instances in ${path}`);
      g.classList.toggle("selected", path === holder.dataset.selected);
      const open = (event) => {
        if (event.type === "keydown" && event.key !== "Enter") return;
        event.stopPropagation();
        const query = new URLSearchParams(location.search); // The other filters stay.
        query.set("state", path);
        query.delete("cursor");
        const list = document.querySelector("#instances");
        const below = list.getBoundingClientRect().top > this.canvas.getBoundingClientRect().bottom;
        location.assign(`${holder.dataset.machine}?${query}${below ? "#instances" : ""}`);
      };
      g.addEventListener("click", open);
      g.addEventListener("keydown", open);
    }
  }
}
