// Making elements. Every text goes in as text, so nothing that a model or a tool says can become part of the page.

export function element(name, { text, children = [], ...properties } = {}) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  if (text !== undefined) made.textContent = String(text);
  made.append(...children);
  return made;
}

const WORDS = { "input-required": "waits for you", working: "at work", admitted: "at work", uncertain: "outcome unknown" };

const word = (status) => WORDS[status] ?? status;

export function badge(target, status) {
  target.textContent = word(status);
  target.className = `badge ${status}`;
}

export function runItem(run, chosen, choose) {
  const state = element("span");
  badge(state, run.status);
  const button = element("button", {
    type: "button",
    className: "run",
    children: [element("span", { text: run.prompt, className: "prompt" }), state],
    onclick: choose,
  });
  if (chosen) button.setAttribute("aria-current", "true");
  return element("li", { children: [button] });
}

export function activityItem(event) {
  const time = element("time", { dateTime: event.timestamp, text: new Date(event.timestamp).toLocaleTimeString() });
  const title = element("span", { text: event.kind === "run" ? `Run ${word(event.status)}` : event.title });
  const number = element("span", { text: `#${event.sequence}`, className: "muted" });
  return element("li", { className: `kind-${event.kind} is-${event.status}`, children: [time, title, number] });
}

// The card of a request. `act(name)` is called with approve, deny or retry.
export function requestCard(request, act) {
  const children = request.kind === "approval" ? approval(request, act) : other(request, act);
  const card = element("section", { className: "card", children });
  card.setAttribute("aria-labelledby", "card-title");
  return card;
}

function approval(request, act) {
  const action = request.request.action;
  return [
    element("h3", { id: "card-title", text: "The agent asks for your approval" }),
    ...previews(action).map((text) => element("p", { className: "preview", text })),
    argumentsTable(action),
    element("p", { className: "muted", text: `Fingerprint ${request.fingerprint.slice(0, 16)}…` }),
    buttons(["approve", "Approve", "primary"], ["deny", "Deny", "danger"])(act),
  ];
}

function other(request, act) {
  const retry = request.kind === "retry";
  return [
    element("h3", { id: "card-title", text: retry ? "The model could not be asked" : "The run waits" }),
    element("p", { text: request.request?.message ?? request.request?.question ?? request.kind }),
    ...(retry ? [buttons(["retry", "Try again", "primary"])(act)] : []),
  ];
}

function previews(action) {
  const parts = (action.artifacts ?? []).flatMap((artifact) => artifact.parts ?? []);
  return parts.map((part) => part.content).filter((content) => typeof content === "string");
}

function argumentsTable(action) {
  const rows = [["action", action.name], ...Object.entries(action.payload?.arguments ?? {})];
  const cells = rows.map(([name, value]) =>
    element("div", {
      children: [
        element("dt", { text: name }),
        element("dd", { text: typeof value === "string" ? value : JSON.stringify(value) }),
      ],
    }),
  );
  return element("dl", { children: cells });
}

const buttons = (...named) => (act) => {
  const made = named.map(([name, text, className]) =>
    element("button", { type: "button", text, className, id: name, onclick: () => act(name) }),
  );
  return element("div", { className: "row", children: made });
};
