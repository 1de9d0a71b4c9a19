// Ages and countdowns. The console's clock may differ from the browser's: settle dev can advance it.
let offset = 0;

export function setNow(milliseconds) {
  offset = milliseconds - Date.now();
}

// short is a duration as the largest one or two units.
function short(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const two = (number) => String(Math.floor(number)).padStart(2, "0");

// digits is a duration as hours, minutes and seconds.
function digits(seconds) {
  if (seconds >= 100 * 3600) return short(seconds);
  return `${two(seconds / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function tick() {
  const now = Date.now() + offset;
  const left = (element) => (Date.parse(element.dateTime) - now) / 1000;
  for (const time of document.querySelectorAll("[data-ago]")) {
    write(time, `${short(Math.max(0, -left(time)))}${time.hasAttribute("data-counted") ? " ago" : ""}`);
  }
  for (const time of document.querySelectorAll("[data-until], [data-countdown]")) {
    const seconds = left(time);
    time.classList.toggle("late", seconds < 0);
    if (seconds < 0) write(time, `due ${short(-seconds)} ago`);
    else write(time, time.hasAttribute("data-countdown") ? digits(Math.ceil(seconds)) : short(seconds));
  }
  for (const bar of document.querySelectorAll("progress[data-to]")) {
    const from = Date.parse(bar.dataset.from);
    bar.max = Math.max(1, Date.parse(bar.dataset.to) - from);
    bar.value = Math.min(bar.max, Math.max(0, now - from));
  }
}
