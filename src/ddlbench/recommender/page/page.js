// The form, and its answer.

import { Refused, ask, keepToken, post, sendTable } from "./api.js";
import { draw } from "./charts.js";
import * as words from "./words.js";

const form = document.getElementById("ask");
const answerPlace = document.getElementById("answer");
const NAMES = ["model", "framework", "strategy", "devices", "runtime", "image_shape"];
const COMPARED = ["framework", "strategy"]; // without one, all are compared; of the others the server takes one, and says which
let tables = [];
let last = null;
let asking = 0; // which question was asked last: what comes for an earlier one is not shown
const untaken = []; // problems: what the address says, and no element takes

/** An element with text or children; text is never markup. */
function element(tag, content = [], attributes = {}) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...(Array.isArray(content) ? content : [content]));
  return made;
}

function fill(select, values, first) {
  const before = select.value;
  select.replaceChildren(...(first === undefined ? [] : [new Option(first, "")]), ...values.map(([value, text]) => new Option(text, value)));
  if (values.some(([value]) => value === before)) select.value = before;
}

async function loadChoices() {
  const choices = await ask("choices");
  tables = choices.tables;
  fill(form.elements.table, tables.map((each) => [each.name,
    `${each.name === "here" ? "measured here" : each.name} (${each.measurements}${each.problem ? ", unusable" : ""})`]));
  form.querySelector("[data-when=table]").hidden = tables.length < 2;
  fill(form.elements.machine, choices.machines.map((each) => [each.name, `${each.name}, ${each.hourly} ${each.currency} an hour`]), "none");
  showNames();
}

/** The selections that the chosen table has names for. */
function showNames() {
  const table = tables.find((each) => each.name === form.elements.table.value);
  for (const name of NAMES) {
    const values = table?.names[name] ?? [];
    fill(form.elements[name], values.map((each) => [each, each.replaceAll("_", " ")]), COMPARED.includes(name) ? "any" : "as measured most often");
    form.querySelector(`[data-when=${name}]`).hidden = values.length < 2;
  }
  form.querySelector("[data-when=vcpus]").hidden = !table?.says_vcpus && !form.elements.vcpus.value; // what is said is refused there
  document.getElementById("steps-label").textContent = table?.per === "epoch" ? "Epochs" : "Steps";
}

/** The question. A number that the browser cannot read has no value, and would not be asked. */
function asked() {
  const unread = [...form.elements].filter((each) => each.validity.badInput);
  if (unread.length) throw new Refused(0, unread.map((each) => ({ field: each.name, message: "this is no number" })));
  const entries = [...new FormData(form)].filter(([, value]) => value !== "");
  return Object.fromEntries(entries.map(([name, value]) => {
    const isNumber = form.elements[name].type === "number";
    return [name, isNumber ? Number(value) : value];
  }));
}

function clearProblems() {
  document.getElementById("problem").hidden = true;
  form.querySelectorAll(".wrong").forEach((each) => each.remove());
  form.querySelectorAll("[aria-invalid]").forEach((each) => {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-describedby");
  });
}

/** Each problem stands at its field; what has none, above the form. */
function showProblems(problems) {
  const others = [];
  let first = null;
  for (const { field, message } of problems) {
    const input = field && form.elements[field.split(".")[0]];
    if (!input || !input.closest(".field") || input.closest(".field").hidden) {
      others.push(field ? `${field}: ${message}` : message);
      continue;
    }
    const id = `wrong-${input.id}`;
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
    input.closest(".field").append(element("p", message, { id, className: "wrong" }));
    for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    first ??= input;
  }
  const place = document.getElementById("problem");
  place.textContent = others.join("\n");
  place.hidden = !others.length;
  first?.focus();
}

function forWhat(answer, question) {
  const count = question.steps ?? 1;
  if (count === 1) return answer.per === "epoch" ? "an epoch" : "a step";
  return `${count.toLocaleString("en")} ${answer.per}s`;
}

function showAnswer(answer, question) {
  const { best, options } = answer;
  const what = forWhat(answer, question);
  const parts = [];
  if (best) {
    parts.push(element("h2", `Take ${words.option(best, options)}`));
    const costs = best.cost === null ? "" : `, ${words.cost(best)}`;
    parts.push(element("p", `${words.time(best.time_s)} for ${what}${costs} (${words.kind(best, best)}; `
      + `nine of ten measurements take ${words.interval(best)}).`));
    if (options.length > 1) parts.push(element("p", `It is the best of ${options.length} choices with a probability of ${words.percent(best.probability_best)}.`));
  } else {
    parts.push(element("h2", "Nothing can be recommended"));
  }
  for (const each of best ? answer.perhaps_better : []) {
    parts.push(element("p", `But ${words.option(each, [...options, each])} may be better, of which too little is known: measure it first.`));
  }
  if (answer.runners_up.length) {
    parts.push(element("p", "Next best:"), element("ul", answer.runners_up.map((each) => element("li",
      `${words.option(each, options)}: ${words.time(each.time_s)}, ${each.worse_by_percent.toFixed(1)} % worse`))));
  }
  if (answer.measure_next) {
    parts.push(element("p", `Measure next: ${words.option(answer.measure_next, options)}${answer.measure_next.is_measured ? " again" : ""}. It would help the choice most.`, { id: "measure-next" }));
  }
  if (answer.excluded.length) {
    const items = answer.excluded.slice(0, 8).map((each) => element("li", `${words.option(each, [...options, ...answer.excluded])}: ${each.why}`));
    if (answer.excluded.length > 8) items.push(element("li", `and ${answer.excluded.length - 8} more`));
    parts.push(element("p", "Left out:"), element("ul", items));
  }
  const assumed = Object.entries(answer.assumed).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`);
  if (assumed.length) parts.push(element("p", `Not said, so as measured most often: ${assumed.join(", ")}.`));
  parts.push(...answer.warnings.map((each) => element("p", each, { className: "note" })));
  answerPlace.replaceChildren(...parts);
  document.getElementById("charts").hidden = !options.length;
  if (options.length) {
    showTable(answer);
    draw(answer, what);
  }
}

function showTable(answer) {
  const hasPrice = answer.options.some((each) => each.cost !== null);
  const systems = new Set(answer.options.map(words.system)).size > 1;
  const isOn = (one) => answer.pareto.some((each) => each.workers === one.workers && words.system(each) === words.system(one));
  const columns = [
    ["workers", (each) => String(each.workers)],
    ...(systems ? [["with", words.system]] : []),
    ["time", (each) => words.time(each.time_s)],
    ["90 % of measurements", words.interval],
    ["", (each) => words.kind(each, answer.best)],
    ...(hasPrice ? [["cost", words.cost], ["front", (each) => (isOn(each) ? "on the front" : "")]] : []),
    ["best with", (each) => words.percent(each.probability_best)],
  ];
  const table = document.getElementById("options");
  table.tHead.replaceChildren(element("tr", columns.map(([head]) => element("th", head || "kind", { scope: "col" }))));
  table.tBodies[0].replaceChildren(...answer.options.map((each, number) => element("tr",
    columns.map(([, value], column) => (column ? element("td", value(each)) : element("th", value(each), { scope: "row" }))),
    { className: number ? "" : "best" })));
}

async function submit() {
  const mine = ++asking;
  clearProblems();
  answerPlace.setAttribute("aria-busy", "true");
  answerPlace.replaceChildren(element("p", "Looking… (after new measurements this takes a while: they are learned first)"));
  try {
    takeToken();
    if (!tables.length) await loadFirstChoices();
    const question = asked();
    const answer = await post("recommend", question);
    if (mine !== asking) return;
    last = [answer, question];
    showAnswer(answer, question);
    history.replaceState(null, "", `?${new URLSearchParams(question)}`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (mine !== asking) return;
    last = null;
    answerPlace.replaceChildren();
    document.getElementById("charts").hidden = true;
    if (error.status === 401) document.getElementById("token-field").hidden = false;
    showProblems(error.problems);
  } finally {
    if (mine === asking) answerPlace.setAttribute("aria-busy", "false");
  }
}

function takeToken() {
  const token = document.getElementById("token").value;
  if (token) keepToken(token);
}

async function upload() {
  const place = document.getElementById("imported");
  const name = document.getElementById("name").value;
  place.replaceChildren(element("p", "Importing…"));
  takeToken();
  try {
    const found = await sendTable(document.getElementById("file").files[0], name, document.getElementById("leave_out").checked);
    place.replaceChildren(element("p", `${found.rows} rows are in the table ${name}, ${found.left_out_count} left out.`), element("p", columnsOf(found)), rowsOf(found.left_out));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    place.replaceChildren(element("p", "Nothing was imported:"), rowsOf(error.problems));
    return;
  }
  try {
    await loadChoices();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
  if (tables.some((each) => each.name === name)) {
    form.elements.table.value = name;
    showNames();
  } else { // the server is busy, or another process of it answered, which has not looked yet
    place.append(element("p", "It can be chosen in a moment: load this page again then."));
  }
}

function columnsOf({ columns, unused }) {
  const taken = columns.map(({ ours, name, unit }) => `${ours} from “${name}”${unit ? ` in ${unit}` : ""}`);
  return `Columns: ${taken.join(", ")}${unused.length ? `; not used: ${unused.join(", ")}` : ""}.`;
}

function rowsOf(problems) {
  return element("ul", problems.map(({ line, message }) => element("li", line ? `line ${line}: ${message}` : message)));
}

/** Take over what the address says for elements of a kind; the table first, which decides what else can be selected. */
function fillFromAddress(kind) {
  const said = [...new URLSearchParams(location.search)].sort(([one], [other]) => (other === "table") - (one === "table"));
  for (const [name, value] of said) {
    const input = form.elements[name];
    if (input?.tagName !== kind || value === "") continue;
    const before = input.value;
    input.value = value;
    if (input.value !== value) {
      input.value = before;
      untaken.push({ field: name, message: `the address says “${value}”, which ${kind === "SELECT" ? "cannot be chosen here" : "is no number"}` });
    }
    if (name === "table") showNames();
    for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  }
}

/** Selections of the address wait for their choices, which may need a token. Without tables the server says what to do. */
async function loadFirstChoices() {
  await loadChoices();
  fillFromAddress("SELECT");
  const problems = untaken.splice(0);
  if (tables.length && problems.length) throw new Refused(0, problems);
}

/** Begin with what the address says, so that an answer can be sent as a link. */
async function begin() {
  fillFromAddress("INPUT");
  try {
    await loadFirstChoices();
  } catch (error) {
    if (error.status === 401) document.getElementById("token-field").hidden = false;
    showProblems(error.problems ?? [{ field: null, message: String(error) }]);
    return;
  }
  if (new URLSearchParams(location.search).has("batch_size")) await submit();
}

form.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
form.elements.table.addEventListener("change", showNames);
document.getElementById("upload").addEventListener("submit", (event) => { event.preventDefault(); upload(); });
document.getElementById("file").addEventListener("change", (event) => {
  const name = document.getElementById("name");
  name.value ||= event.target.files[0]?.name.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9_-]+/g, "-") ?? "";
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (last) showAnswer(...last); });
begin();
