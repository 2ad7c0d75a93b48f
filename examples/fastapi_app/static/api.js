// Requests to the server. Whatever it refuses becomes an Error with the server's own words.

async function call(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const found = await response.json().catch(() => ({}));
  if (!response.ok) {
    const told = typeof found.detail === "string" ? found.detail : `The server said ${response.status}`;
    throw Object.assign(new Error(told), { status: response.status });
  }
  return found;
}

const run = (id) => `/runs/${encodeURIComponent(id)}`;

export const signIn = () => call("POST", "/session");
export const listRuns = () => call("GET", "/runs");
export const beginRun = (requestId, prompt) => call("POST", "/runs", { request_id: requestId, prompt });
export const showRun = (id) => call("GET", run(id));
export const cancelRun = (id) => call("POST", `${run(id)}/cancel`);
export const retryRun = (id) => call("POST", `${run(id)}/retry`);
export const decide = (id, request, approved) =>
  call("POST", `${run(id)}/approvals/${encodeURIComponent(request.request_id)}`, {
    fingerprint: request.fingerprint,
    approved,
  });

// Follow a run until it has ended, and the server closes the stream. Any other time the browser connects again by itself
// and sends the last number that it saw; a number that comes again all the same is left out.
export function follow(id, { activity, answer, snapshot, connected }) {
  const source = new EventSource(`${run(id)}/events`);
  let seen = 0;
  let over = false;
  const on = (kind, use) => source.addEventListener(kind, (event) => use(JSON.parse(event.data), event));
  on("activity", (data) => {
    if (data.sequence > seen) {
      seen = data.sequence;
      activity(data);
    }
  });
  on("answer", answer);
  on("snapshot", (data) => {
    snapshot(data);
    over = ["completed", "failed", "canceled"].includes(data.status);
  });
  source.addEventListener("open", () => connected(true));
  source.addEventListener("error", () => (over ? source.close() : connected(false)));
  return () => source.close();
}
