// The page: one list of runs, and one run that is followed.

import * as api from "./api.js";
import { activityItem, badge, requestCard, runItem } from "./view.js";

const at = (id) => document.getElementById(id);
const OVER = ["completed", "failed", "canceled"];
let chosen = null;
let stop = () => {};

async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    notice(error.message);
    return null;
  }
}

function notice(text) {
  at("notice").textContent = text ?? "";
  at("notice").hidden = text === null;
}

// The list is looked at again now and then. That the server is away is said by the run that is followed.
const lookAgain = () => refreshList().catch(() => {});

async function refreshList() {
  const { runs } = await api.listRuns();
  at("runs").replaceChildren(...runs.map((run) => runItem(run, run.run_id === chosen, () => choose(run))));
  at("no-runs").hidden = runs.length > 0;
}

function choose(run) {
  stop();
  notice(null);
  chosen = run.run_id;
  history.replaceState(null, "", `#${chosen}`);
  at("empty").hidden = true;
  at("shown").hidden = false;
  at("title").textContent = run.prompt;
  showAnswer({ kind: "replace", text: "" });
  at("activity").replaceChildren();
  show(run);
  stop = api.follow(chosen, {
    activity: showActivity,
    answer: showAnswer,
    snapshot: (found) => {
      show(found);
      lookAgain();
    },
    connected: (well) => document.body.classList.toggle("away", !well),
  });
  lookAgain();
}

function showActivity(event) {
  at("activity").append(activityItem(event));
  // Its rests are shown by snapshots, together with what belongs to them.
  const begins = ["queued", "admitted", "working"].includes(event.status);
  if (begins && event.run_id === chosen) badge(at("status"), event.status);
}

function showAnswer({ kind, text }) {
  const answer = at("answer");
  if (kind === "delta") answer.append(text);
  else answer.textContent = text;
  answer.classList.toggle("writing", kind === "delta");
}

function show(run) {
  badge(at("status"), run.status);
  at("cancel").hidden = OVER.includes(run.status);
  at("answer").classList.toggle("over", OVER.includes(run.status));
  if (run.answer !== null) showAnswer({ kind: "completed", text: run.answer });
  if (run.error !== null) notice(run.error);
  showRequests(run.requests);
}

// A card that is there already stays, with the focus that it may have.
function showRequests(requests) {
  const place = at("requests");
  const ids = requests.map((request) => request.request_id).join();
  if (ids === place.dataset.ids) return;
  place.dataset.ids = ids;
  place.replaceChildren(...requests.map((request) => requestCard(request, (name) => act(request, name))));
}

async function act(request, name) {
  notice(null);
  const id = chosen;
  const buttons = at("requests").querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  const work = name === "retry" ? () => api.retryRun(id) : () => api.decide(id, request, name === "approve");
  const found = await attempt(work);
  // Refused: somebody else may have been faster, so show what is true now.
  const now = found ?? (await attempt(() => api.showRun(id)));
  if (now !== null && id === chosen) show(now);
  for (const button of buttons) button.disabled = false;
  lookAgain();
}

at("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  notice(null);
  const run = await attempt(() => api.beginRun(crypto.randomUUID(), at("prompt").value));
  if (run !== null) choose(run);
});

at("cancel").addEventListener("click", async () => {
  notice(null);
  const run = await attempt(() => api.cancelRun(chosen));
  if (run?.run_id === chosen) show(run);
});

// The address may name the run that was shown before. Whoever has chosen another one by now is not disturbed.
const wanted = location.hash.slice(1);
await attempt(async () => {
  at("user").textContent = `You are ${(await api.signIn()).user}`;
  await refreshList();
  const run = wanted && chosen === null ? await api.showRun(wanted) : null;
  if (run && chosen === null) choose(run);
});
