"use strict";
// Reads values off the charts: point at one, touch it, or focus it and use the arrow keys. All charts follow
// the same step, so that loss, learning rate and throughput of one moment are read together.
(() => {
  const written = (value) => {
    const size = Math.abs(value);
    if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(3).replace(/\.?0+e/, "e");
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(4)));
  };

  // The point whose step is nearest; points lie in rising steps.
  const nearest = (points, step) => {
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - points[low - 1][0] < points[low][0] - step ? points[low - 1] : points[low];
  };

  const add = (svg, name, attributes) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    made.style.display = "none";
    return svg.appendChild(made);
  };

  const prepare = (figure) => {
    const svg = figure.querySelector("svg.chart"), plot = figure.querySelector(".plot");
    const data = JSON.parse(svg.dataset.chart), [left, top, width, height] = data.plot;
    const share = (value, [low, high], log) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    const clamp = (value) => Math.min(1, Math.max(0, value));
    const across = (step) => left + width * clamp(share(step, data.x, data.across));
    const up = (value) => top + height * (1 - clamp(share(value, data.y, data.log)));
    const guide = add(svg, "line", { class: "guide", y1: top, y2: top + height });
    const marks = data.series.map((line) =>
      add(svg, "circle", { r: 4.5, style: `fill:var(--${line.colour < 0 ? "ink" : "s" + line.colour});stroke:var(--card);stroke-width:2` }));
    const outputs = figure.querySelectorAll("output"), at = figure.querySelector(".at");
    const cover = document.createElement("div"); // keeps the browser's own tooltip of the chart's title away
    cover.className = "cover";
    plot.append(cover);

    // Where parts of the axis have names, a place is called by that of its part.
    const called = (step) => data.parts
      ? data.parts.reduce((name, part) => part[0] <= step ? part[1] : name, "")
      : data.said.replace("{}", Math.round(step).toLocaleString("en"));

    const steps = data.series.reduce((most, line) => line.points.length > most.length ? line.points : most, []);
    const show = (step) => {
      guide.style.display = step === null ? "none" : "";
      const note = at.dataset.note;
      at.textContent = step === null ? note : called(step) + (note && !data.parts ? ", " + note : "");
      if (step !== null) { guide.setAttribute("x1", across(step)); guide.setAttribute("x2", across(step)); }
      data.series.forEach((line, index) => {
        const point = step === null || !line.points.length ? null : nearest(line.points, step);
        const hidden = point === null || (data.log && point[1] <= 0);
        marks[index].style.display = hidden ? "none" : "";
        outputs[index].textContent = point === null ? outputs[index].dataset.last : written(point[1]);
        if (!hidden) { marks[index].setAttribute("cx", across(point[0])); marks[index].setAttribute("cy", up(point[2] ?? point[1])); }
      });
    };
    const stepAt = (event) => {
      const box = svg.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width - left) / width;
      const [low, high] = data.x;
      return data.across ? low * (high / low) ** clamp(place) : low + clamp(place) * (high - low);
    };
    return { plot, cover, steps, show, stepAt, points: (step) => nearest(steps, step) };
  };

  const charts = [...document.querySelectorAll(".panel")].map(prepare);
  let step = null;
  const showAll = (wanted) => { step = wanted; for (const chart of charts) chart.show(wanted); };

  for (const chart of charts) {
    if (!chart.steps.length) continue;
    const point = (event) => showAll(chart.points(chart.stepAt(event))[0]);
    chart.cover.addEventListener("pointermove", point);
    chart.cover.addEventListener("pointerdown", point);
    chart.cover.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") showAll(null); });
    chart.plot.addEventListener("blur", () => showAll(null));
    chart.plot.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity, Escape: null }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      if (move === null) return showAll(null);
      const last = chart.steps.length - 1;
      const now = step === null ? (move < 0 ? last + 1 : -1) : chart.steps.indexOf(chart.points(step));
      showAll(chart.steps[Math.min(last, Math.max(0, now + move))][0]);
    });
  }

  // On paper nothing can be unfolded.
  addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details")) fold.open = true; });
})();
