"use strict";
// A history is put together; the service is asked what comes next, what is similar, and why.

const LENGTH = 10;
const byId = (id) => document.getElementById(id);
const nameOf = (shown) => shown.name || shown.item;
const names = new Map(); // what is known of items, by id
let viewed = "";
let history = [];
let asked = 0; // the last question of each kind; answers to earlier ones come too late
let searched = 0;

async function ask(path, question) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, question && { method: "POST", headers, body: JSON.stringify(question) });
  const content = await answer.json();
  if (answer.ok) return content;
  throw new Error([content.detail].flat().map((mistake) => mistake.msg || mistake).join("; "));
}

function guarded(action) {
  return async (...values) => {
    let mistake = "";
    await Promise.resolve(action(...values)).catch((error) => (mistake = error.message));
    byId("mistake").textContent = mistake;
    byId("mistake").hidden = !mistake;
  };
}

function element(tag, text, kind = "") {
  return Object.assign(document.createElement(tag), { textContent: text, className: kind });
}

function row(shown, more, actions) {
  names.set(shown.item, shown);
  const line = document.querySelector("template").content.firstElementChild.cloneNode(true);
  line.dataset.item = shown.item;
  line.querySelector(".name").textContent = nameOf(shown);
  line.querySelector(".more").textContent = [shown.name && `id ${shown.item}`, more].filter(Boolean).join(" · ");
  for (const [word, action] of Object.entries(actions)) {
    const button = Object.assign(element("button", word), { type: "button", ariaLabel: `${word}: ${nameOf(shown)}` });
    button.addEventListener("click", guarded(async () => action(line.querySelector(".below"))));
    line.querySelector(".buttons").append(button);
  }
  return line;
}

function show(place, kind, ...content) {
  place.hidden = !place.hidden && place.dataset.kind === kind;
  place.dataset.kind = kind;
  place.replaceChildren(...content);
}

async function similar(item, place) {
  const { answers: [answer] } = await ask("similar", { items: [item], k: LENGTH });
  const list = element("ul", "");
  list.append(...answer.map((shown) => row(shown, shown.score.toFixed(2), { add: () => add(shown) })));
  show(place, "similar", element("p", "Most similar:"), list);
}

async function why(item, place) {
  const { reasons, score } = await ask("explain", { history, item });
  const widest = Math.max(...reasons.map((reason) => Math.abs(reason.influence)), 1e-9);
  const table = element("div", "", "why");
  for (const reason of reasons.sort((a, b) => b.influence - a.influence)) {
    const bar = element("div", "", reason.influence < 0 ? "bar less" : "bar");
    bar.style.width = `${(100 * Math.abs(reason.influence)) / widest}%`;
    table.append(element("span", nameOf(reason)), bar, element("span", reason.influence.toFixed(2)));
  }
  show(place, "why", element("p", `Score ${score.toFixed(2)}. It is by so much higher for each item of the history:`), table);
}

async function change(items) {
  history = items;
  const lines = history.map((item, place) => row(names.get(item) || { item }, "", {
    ...(place && { earlier: () => change(history.with(place, history[place - 1]).with(place - 1, item)) }),
    remove: () => change(history.toSpliced(place, 1)),
  }));
  byId("history").replaceChildren(...lines);
  byId("clear").hidden = !history.length;
  window.history.replaceState(null, "", history.length ? `#${history.map(encodeURIComponent)}` : location.pathname);
  const mine = ++asked;
  const { answers: [{ items: next, unknown }] } = await ask("recommend", { histories: [history], k: LENGTH });
  if (mine !== asked) return;
  byId("next").textContent = history.length ? "Next" : "Popular";
  byId("viewed").textContent = [unknown && `${unknown} of the history unknown here`, viewed].filter(Boolean).join("; ");
  byId("list").replaceChildren(...next.map((shown) => row(shown, shown.score.toFixed(2), {
    add: () => add(shown),
    ...(history.length > unknown && { why: (place) => why(shown.item, place) }),
    similar: (place) => similar(shown.item, place),
  })));
}

const add = (shown) => change([...history, shown.item]);
const find = async (text, most) => (await ask(`search?most=${most}&text=${encodeURIComponent(text)}`)).items;

async function search() {
  const mine = ++searched;
  const text = byId("text").value.trim();
  const found = text ? await find(text, 20) : [];
  if (mine !== searched) return;
  const lines = found.map((shown) => row(shown, "", { add: () => add(shown) }));
  byId("found").replaceChildren(...(text && !lines.length ? [element("p", "No item has this in its name or id.")] : lines));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that was cut or written by hand
  }
}

async function start() {
  const about = await ask("health");
  byId("about").textContent = `${about.file}: ${about.model}, ${about.items.toLocaleString("en")} items`;
  viewed = about.viewed;
  const items = location.hash.slice(1).split(",").filter(Boolean).map(decoded);
  for (const item of new Set(items.filter((one) => one.length <= byId("text").maxLength))) {
    for (const shown of await find(item, 1)) names.set(shown.item, shown);
  }
  await change(items);
}

let typed;
byId("text").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(guarded(search), 150);
});
byId("clear").addEventListener("click", guarded(() => change([])));
guarded(start)();
