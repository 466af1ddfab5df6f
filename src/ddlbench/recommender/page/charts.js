// The three charts of an answer, drawn with Chart.js (a global of vendor/chart.umd.min.js).

import { option, percent, system, time, unitFor } from "./words.js";

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [1, 2]];
const drawn = [];

/** Draw the charts of an answer; those of the last one go. */
export function draw(answer, what) {
  drawn.splice(0).forEach((chart) => chart.destroy());
  const options = answer.options.filter((each) => each.time_s !== null);
  const priced = options.filter((each) => each.cost !== null);
  const { unit, name } = unitFor(options.map((each) => each.time_high_s ?? each.time_s));
  curve("time", `Time for ${what} by workers`, name, options, answer.best, (each) => [
    each.time_s / unit,
    each.time_low_s / unit,
    each.time_high_s === null ? null : each.time_high_s / unit,
  ]);
  show("cost", priced.length > 0);
  show("front", priced.length > 1);
  if (!priced.length) return;
  const currency = priced[0].currency;
  curve("cost", `Cost of ${what} by workers`, currency, priced, answer.best, (each) => [each.cost, each.cost_low, each.cost_high]);
  if (priced.length > 1) front(`Cost against time: no other choice is both faster and cheaper than those on the line`,
    priced, answer, unit, name, currency);
}

function show(id, isShown) {
  document.getElementById(`${id}-figure`).hidden = !isShown;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function series(number) {
  return colour(`--series-${number % 6}`);
}

/** A value by workers: a line for each framework and strategy, with its band. */
function curve(id, title, unit, options, best, values) {
  document.getElementById(`${id}-caption`).textContent = title;
  const systems = [...new Set(options.map(system))].sort();
  const datasets = systems.flatMap((each, number) => {
    const own = options.filter((one) => system(one) === each).sort((one, other) => one.workers - other.workers);
    const at = (which) => own.map((one) => ({ x: one.workers, y: values(one)[which], option: one }));
    const line = {
      label: each || "all",
      data: at(0),
      borderColor: series(number),
      borderDash: DASHES[number % DASHES.length],
      ...points(own, best, series(number)),
    };
    const edge = { label: "", borderColor: "transparent", pointRadius: 0, pointHitRadius: 0 };
    const hasBand = own.some((one) => values(one)[2] !== null);
    return hasBand
      ? [line, { ...edge, data: at(1) }, { ...edge, data: at(2), fill: "-1", backgroundColor: `${series(number)}33` }]
      : [line];
  });
  plot(id, "line", datasets, { x: "workers", y: unit }, systems.length > 1, (one) => [
    option(one, options),
    `${id === "time" ? time(one.time_s) : `${one.cost.toPrecision(3)} ${one.currency}`} (${kind(one)})`,
  ], { x: { ticks: { precision: 0, stepSize: 1 }, offset: true } });
}

/** Cost against time; the Pareto front is the line. */
function front(title, options, answer, unit, name, currency) {
  document.getElementById("front-caption").textContent = title;
  const isOn = (one) => answer.pareto.some((each) => each.workers === one.workers && system(each) === system(one));
  const at = (some) => some.map((one) => ({ x: one.time_s / unit, y: one.cost, option: one }));
  const on = options.filter(isOn).sort((one, other) => one.time_s - other.time_s);
  const off = options.filter((one) => !isOn(one));
  const datasets = [
    { label: "best trade-offs", data: at(on), showLine: true, borderColor: series(0), ...points(on, answer.best, series(0)) },
    { label: "others", data: at(off), borderColor: series(1), ...points(off, answer.best, series(1)), pointStyle: "rect" },
  ].filter((each) => each.data.length);
  plot("front", "scatter", datasets, { x: name, y: currency }, true, (one) => [
    option(one, options),
    `${time(one.time_s)}, ${one.cost.toPrecision(3)} ${one.currency} (${kind(one)})`,
  ], {});
}

/** Filled where measured, hollow where predicted, large where recommended. */
function points(options, best, full) {
  const isBest = (one) => best && one.workers === best.workers && system(one) === system(best);
  return {
    pointBackgroundColor: options.map((one) => (one.is_measured ? full : colour("--surface"))),
    pointBorderColor: full,
    pointBorderWidth: 2,
    pointRadius: options.map((one) => (isBest(one) ? 9 : 5)),
    pointHoverRadius: 10,
    borderWidth: 2,
  };
}

function kind(one) {
  return `${one.is_measured ? "measured" : "predicted"}, best with ${percent(one.probability_best)}`;
}

function plot(id, type, datasets, units, hasLegend, words, scales) {
  const axis = (which) => ({
    title: { display: true, text: units[which], color: colour("--text") },
    ticks: { color: colour("--text"), ...scales[which]?.ticks },
    grid: { color: colour("--grid") },
    ...(scales[which]?.offset ? { offset: true, type: "linear" } : { type: "linear" }),
  });
  drawn.push(new window.Chart(document.getElementById(id), {
    type,
    data: { datasets },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "nearest", intersect: false },
      scales: { x: axis("x"), y: { ...axis("y"), beginAtZero: true } },
      plugins: {
        legend: {
          display: hasLegend,
          onClick: () => {},
          labels: { color: colour("--text"), filter: (item) => item.text !== "", usePointStyle: false },
        },
        tooltip: {
          filter: (item) => item.dataset.label !== "",
          callbacks: { title: () => "", label: (item) => words(item.raw.option) },
        },
      },
    },
  }));
}
