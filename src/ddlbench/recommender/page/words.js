// Numbers and options in words.

const UNITS = [[3.6e3 * 10, 3.6e3, "h"], [600, 60, "min"], [1, 1, "s"], [0, 1e-3, "ms"]];

/** A number with three significant digits. */
export function digits(value) {
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** A time in a unit that suits it. */
export function time(seconds) {
  if (seconds === null) return "unknown";
  const [, unit, name] = UNITS.find(([least]) => seconds >= least);
  return `${digits(seconds / unit)} ${name}`;
}

/** The unit that suits the longest of some times: how many seconds it has, and its name. */
export function unitFor(seconds) {
  const longest = Math.max(...seconds);
  const [, unit, name] = UNITS.find(([least]) => longest >= least);
  return { unit, name };
}

export function workers(count) {
  return `${count} worker${count === 1 ? "" : "s"}`;
}

/** Framework and strategy, as far as they are named. */
export function system(option) {
  return [option.framework, option.strategy.replaceAll("_", " ")].filter(Boolean).join(", ");
}

/** An option among others: workers, and what else differs. */
export function option(one, others) {
  const differ = new Set(others.map(system)).size > 1;
  return differ ? `${workers(one.workers)}, ${system(one)}` : workers(one.workers);
}

export function interval(one) {
  return `${time(one.time_low_s)} to ${one.time_high_s === null ? "unknown" : time(one.time_high_s)}`;
}

/** Measured or predicted, and of what; of an option after the best one, where that differs. */
export function kind(one, best) {
  const what = one.is_measured ? "measured" : "predicted";
  if (!one.origin || (one !== best && one.origin === best.origin)) return what;
  return `${what}${one.is_measured ? "" : " from what was measured"} ${one.origin}`;
}

export function cost(one) {
  return one.cost === null ? "" : `${digits(one.cost)} ${one.currency}`;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}
