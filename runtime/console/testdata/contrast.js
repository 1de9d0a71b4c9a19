// Returns "checked", and a line for each text with a contrast below WCAG 2.2 AA.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  // In a chart, a text stands on its state's rectangle, on the strip of a container, or on its own halo.
  const behindChart = (text) => {
    const style = getComputedStyle(text);
    if (text.closest(".edge")) return parse(style.stroke);
    const group = text.closest("g");
    const shape = group.querySelector(":scope > .strip") ?? group.querySelector(":scope > .body") ?? group.querySelector(":scope > .border");
    const fill = getComputedStyle(shape).fill;
    return parse(fill === "none" ? getComputedStyle(text.ownerSVGElement.querySelector(".page")).fill : fill);
  };
  const lines = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const svg = element.closest("svg");
    if (!walker.currentNode.data.trim() || element.closest(".hidden, .skip, script, title, desc, [hidden]") || !element.getClientRects().length) continue;
    texts++;
    const style = getComputedStyle(element);
    const front = luminance(parse(svg ? style.fill : style.color));
    const back = luminance(svg ? behindChart(element.closest("text")) : behind(element));
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (contrast < 4.5) lines.push(`${contrast.toFixed(2)} for ${JSON.stringify(walker.currentNode.data.trim().slice(0, 40))} in ${element.outerHTML.slice(0, 120)}`);
  }
  return texts ? ["checked", ...new Set(lines)] : [];
})()
