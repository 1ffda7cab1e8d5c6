document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  viewers.forEach((viewer) => viewer.draw());
});

function element(name, parent, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  parent.append(made);
  return made;
}

// The colour of a weight, in parts, on a scale that ends at `top`.
function colorOf(parts, top) {
  return parts < 0 ? INVALID : COLORS[Math.min(255, Math.round((parts / top) * 255))];
}

// The next tenth above the largest weight of all heads, so that heads can be compared.
function topOf(group) {
  let largest = 0;
  for (const head of group.heads) for (const weight of head.weights) largest = Math.max(largest, weight);
  return Math.min(PARTS, Math.max(PARTS / 10, Math.ceil((largest / PARTS) * 10) * (PARTS / 10)));
}

class Viewer {
  constructor(section) {
    this.data = JSON.parse(section.querySelector("script").textContent);
    this.path = this.data.groups[0].path.slice();
    this.head = 0;
    this.cell = null;
    this.pickers = element("div", section, { className: "pickers" });
    this.heads = element("div", section, { className: "heads" });
    this.said = element("p", section, { className: "said" });
    this.said.setAttribute("aria-live", "polite");
    this.canvas = element("canvas", section, { className: "map", tabIndex: 0 });
    const bar = element("div", section, { className: "bar" });
    element("span", bar, { textContent: "0" });
    element("div", bar).style.background = `linear-gradient(to right, ${COLORS.filter((_, i) => i % 15 === 0).join(",")})`;
    this.top = element("span", bar);
    this.makePickers();
    this.listen();
    this.choose();
  }

  makePickers() {
    this.data.pickers.forEach((name, level) => {
      const values = [...new Set(this.data.groups.map((group) => group.path[level]))];
      if (values.length < 2) return;
      const label = element("label", this.pickers, { textContent: `${name} ` });
      const select = element("select", label);
      values.forEach((value) => element("option", select, { value, textContent: value }));
      select.addEventListener("change", () => {
        this.path[level] = select.value;
        this.choose();
      });
    });
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const shrink = this.width / box.width;
      const column = Math.floor(((event.clientX - box.left) * shrink - this.left) / this.size);
      const row = Math.floor(((event.clientY - box.top) * shrink - this.above) / this.size);
      this.point(row, column);
    });
    this.canvas.addEventListener("pointerleave", () => this.point(-1, -1));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const [row, column] = this.cell || [0, 0];
      const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
      this.point(clamp(row + step[0], this.group.queries.length), clamp(column + step[1], this.group.keys.length));
    });
  }

  choose() {
    const fits = (group) => group.path.every((value, level) => value === this.path[level]);
    this.group = this.data.groups.find(fits) || this.data.groups[0];
    this.head = Math.min(this.head, this.group.heads.length - 1);
    this.scaleTop = topOf(this.group);
    this.top.textContent = `${this.scaleTop / PARTS} attention weight`;
    this.heads.replaceChildren();
    this.group.heads.forEach((head, index) => this.thumbnail(head, index));
    this.heads.hidden = this.group.heads.length < 2;
    this.point(-1, -1);
  }

  thumbnail(head, index) {
    const button = element("button", this.heads);
    button.setAttribute("aria-pressed", index === this.head);
    const [rows, columns] = [this.group.queries.length, this.group.keys.length];
    const canvas = element("canvas", button, { width: columns, height: rows });
    const context = canvas.getContext("2d");
    head.weights.forEach((weight, place) => {
      context.fillStyle = colorOf(weight, this.scaleTop);
      context.fillRect(place % columns, Math.floor(place / columns), 1, 1);
    });
    element("div", button, { textContent: head.name });
    element("div", button, { textContent: head.note });
    button.addEventListener("click", () => {
      this.head = index;
      [...this.heads.children].forEach((other, place) => other.setAttribute("aria-pressed", place === index));
      this.draw();
      this.say();
    });
  }

  point(row, column) {
    const inside = row >= 0 && column >= 0 && row < this.group.queries.length && column < this.group.keys.length;
    this.cell = inside ? [row, column] : null;
    this.draw();
    this.say();
  }

  say() {
    const head = this.group.heads[this.head];
    const name = this.group.heads.length > 1 ? `${head.name}: ` : "";
    if (!this.cell) {
      this.said.textContent = `${name}point at a cell to read its weight`;
      return;
    }
    const [row, column] = this.cell;
    const weight = head.weights[row * this.group.keys.length + column];
    const number = weight < 0 ? "no weight (NaN, infinite or negative)" : (weight / PARTS).toFixed(4);
    this.said.textContent = `${name}“${this.group.queries[row]}” attends to “${this.group.keys[column]}”: ${number}`;
  }

  draw() {
    const { queries, keys, heads } = this.group;
    const style = getComputedStyle(document.documentElement);
    const [text, mark] = ["--text", "--mark"].map((name) => style.getPropertyValue(name));
    const font = "11px 'DejaVu Sans', Verdana, sans-serif";
    const context = this.canvas.getContext("2d");
    context.font = font;
    const widest = (words) => Math.max(0, ...words.map((word) => Math.min(120, context.measureText(word).width)));
    this.size = Math.max(2, Math.min(34, Math.floor(520 / Math.max(queries.length, keys.length))));
    this.left = Math.ceil(widest(queries)) + 12;
    this.above = 6;
    const below = Math.ceil(widest(keys) * 0.83) + 22;
    this.width = this.left + keys.length * this.size + 20;
    const height = this.above + queries.length * this.size + below;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: this.width * ratio, height: height * ratio });
    this.canvas.style.width = `${this.width}px`;
    context.scale(ratio, ratio);
    context.font = font;
    context.textBaseline = "middle";
    heads[this.head].weights.forEach((weight, place) => {
      const [row, column] = [Math.floor(place / keys.length), place % keys.length];
      context.fillStyle = colorOf(weight, this.scaleTop);
      context.fillRect(this.left + column * this.size, this.above + row * this.size, this.size, this.size);
    });
    this.labels(context, text, mark);
  }

  labels(context, text, mark) {
    const { queries, keys } = this.group;
    const step = Math.ceil(12 / this.size);
    const [row, column] = this.cell || [-1, -1];
    queries.forEach((word, index) => {
      if (index % step && index !== row) return;
      context.fillStyle = index === row ? mark : text;
      context.textAlign = "right";
      context.fillText(word, this.left - 6, this.above + (index + 0.5) * this.size, 120);
    });
    keys.forEach((word, index) => {
      if (index % step && index !== column) return;
      context.save();
      context.translate(this.left + (index + 0.5) * this.size, this.above + queries.length * this.size + 8);
      context.rotate(-Math.PI / 3.2);
      context.fillStyle = index === column ? mark : text;
      context.textAlign = "right";
      context.fillText(word, 0, 0, 120);
      context.restore();
    });
    if (this.cell) {
      context.strokeStyle = mark;
      context.lineWidth = 2;
      context.strokeRect(this.left + column * this.size, this.above + row * this.size, this.size, this.size);
    }
  }
}

const viewers = [...document.querySelectorAll(".maps")].map((section) => new Viewer(section));
