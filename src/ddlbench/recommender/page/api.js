// Requests to the server that this page comes from.

const TOKEN = "ddlbench token";

/** What the server says is wrong: a list of {field, line, message}. */
export class Refused extends Error {
  constructor(status, problems) {
    super(problems.map((each) => each.message).join("\n"));
    this.status = status;
    this.problems = problems;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function post(path, content) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });
}

export function sendTable(file, name, leavesOut) {
  const kind = file.name.endsWith(".parquet") ? "application/vnd.apache.parquet" : "text/csv";
  const query = new URLSearchParams({ name, leave_out_bad_rows: leavesOut });
  return ask(`import?${query}`, { method: "POST", headers: { "Content-Type": kind }, body: file });
}

export async function ask(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, [{ field: null, message: "The server does not answer. Is  ddlbench serve  still running?" }]);
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, content.problems ?? [{ field: null, message: response.statusText }]);
  return content;
}
