"use strict";
// Keeps the bar at the top up to date, and on the run's page also what is below it: each
// part is replaced when the server's differs, with the folds that the reader opened.
const now = document.getElementById("now");
const done = document.getElementById("done");
const main = document.querySelector("main");
let records = null;

function folds(part) {
  return [...part.querySelectorAll("details")].filter((d) => d.open).map((d) => d.querySelector("summary").textContent);
}

function swap(old, fresh) {
  const open = new Set(folds(old));
  const chosen = old.querySelector("input[name=only]:checked");
  for (const d of fresh.querySelectorAll("details")) d.open = open.has(d.querySelector("summary").textContent);
  if (chosen) {
    const same = fresh.querySelector("#" + chosen.id);
    if (same) same.checked = true;
  }
  old.replaceWith(fresh);
}

async function refresh() {
  const answer = await fetch("/");
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  let before = document.querySelector("nav");
  for (const fresh of page.querySelectorAll("main > [id]")) {
    const old = document.getElementById(fresh.id);
    const part = document.importNode(fresh, true);
    if (!old) before.after(part);
    else if (old.dataset.text !== fresh.innerHTML) swap(old, part);
    before = document.getElementById(fresh.id);
    before.dataset.text = fresh.innerHTML;
  }
  document.title = page.title;
  main.dataset.refreshed = String(Number(main.dataset.refreshed || 0) + 1);
}

const events = new EventSource("/events");
events.onmessage = async (event) => {
  const told = JSON.parse(event.data);
  now.textContent = told.now;
  now.classList.remove("lost");
  done.value = told.done;
  if (records !== null && told.records !== records && location.pathname === "/") await refresh();
  records = told.records;
};
events.onerror = () => {
  now.textContent = "not connected: the program that served this page has ended";
  now.classList.add("lost");
};
