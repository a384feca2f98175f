"use strict";
// The live page: reads server-sent events, draws them with Plotly, and lets one row be tried by hand.

const at = (id) => document.getElementById(id);
const seen = { state: null, curves: null, traffic: [], columns: "" };
let token = sessionStorage.getItem("bomkl-token");
let waitingId = null;

// ------------------------------------------------------------ requests

const headers = (more = {}) => (token ? { Authorization: `Bearer ${token}`, ...more } : more);

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: headers(options.headers) });
  if (response.status === 401) {
    await askToken();
    return ask(path, options);
  }
  return response;
}

async function send(path, body) {
  const response = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

function askToken() {
  const dialog = at("ask-token");
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    at("token-form").addEventListener("submit", () => {
      token = at("token").value;
      sessionStorage.setItem("bomkl-token", token);
      resolve();
    }, { once: true });
  });
}

// EventSource cannot send a token, so the stream is read by hand: "data: JSON" and an empty line.
async function listen() {
  for (;;) {
    try {
      const first = await (await ask("/v1/state")).json();
      seen.traffic = [];
      show(first);
      const response = await ask("/v1/events");
      if (!response.ok) throw new Error(response.statusText);
      status("live", "live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) show(JSON.parse(event.slice("data: ".length)));
      }
    } catch (error) {
      console.warn(error);
    }
    status("down", "reconnecting");
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function status(kind, text) {
  at("status").className = `pill ${kind}`;
  at("status").textContent = text;
}

// ------------------------------------------------------------ words and numbers

const whole = new Intl.NumberFormat("en");
const regression = () => seen.state.task === "regress";
const percent = (share, digits = 2) => `${(100 * share).toFixed(digits)} %`;
const figure = (error) => (regression() ? Number(error.toPrecision(4)).toString() : percent(error));
const bytes = (n) => (n < 1e6 ? `${(n / 1e3).toFixed(0)} kB` : `${(n / 1e6).toFixed(1)} MB`);
const inMilliseconds = (s) => (s === null ? null : 1000 * s);
const milliseconds = (s) => (s === null ? "–" : s < 0.1 ? `${(1000 * s).toFixed(1)} ms` : `${(1000 * s).toFixed(0)} ms`);
const plural = (n, word) => `${whole.format(n)} ${word}${n === 1 ? "" : "s"}`;

function write(id, text, kind) {
  at(id).textContent = text;
  if (kind !== undefined) at(id).className = `note ${kind}`;
}

function against(error, baseline) {
  const [better, name] = [baseline - error, regression() ? "the mean" : "the majority class"];
  return [`${figure(baseline)} for ${name}`, better > 0 ? "good" : better < 0 ? "bad" : ""];
}

function show(state) {
  seen.state = state;
  if (state.curves) seen.curves = state.curves;
  const newest = seen.traffic.at(-1)?.at ?? 0;
  seen.traffic = [...seen.traffic, ...state.traffic.filter((each) => each.at > newest)].slice(-300);
  const last = seen.traffic.at(-1);
  const what = { classify: "classification", regress: "regression" }[state.task];
  write("subtitle", state.estimator ? `${state.estimator} · ${what} · ${plural(state.columns.length, "column")}` : "Waiting for the first row");
  write("rows", whole.format(state.rows));
  write("rows-note", last ? `${last.rows_per_second.toFixed(0)} a second` : "", "");
  write("window-rows", whole.format(state.rows ? state.window_rows : 1000));
  if (state.rows) {
    write("window-error", figure(state.window_error));
    write("window-note", ...against(state.window_error, state.window_baseline_error));
    write("error", figure(state.error));
    write("error-note", ...against(state.error, state.baseline_error));
  }
  write("latency", last ? milliseconds(last.latency_p99) : "–");
  write("latency-note", last && last.latency_p50 !== null ? `${milliseconds(last.latency_p50)} for half of them` : "no requests now", "");
  write("waiting", whole.format(state.labels.waiting));
  write("waiting-note", `${whole.format(state.labels.expired)} expired`, "");
  write("memory", bytes(state.memory.model_bytes));
  write("memory-note", state.log.snapshot_failure ? "no snapshot: disk?" : `${plural(state.queued, "row")} queued`, state.log.snapshot_failure ? "bad" : "");
  at("drift").hidden = !state.drift.now;
  if (state.drift.now) {
    const warning = state.drift.warnings.at(-1);
    write("drift", `Drift since about row ${whole.format(warning.rows)}: the error of the last 1,000 rows rose to ${figure(state.window_error)} from ${figure(warning.error_before)}.`);
  }
  form(state);
  draw();
}

// ------------------------------------------------------------ charts

const COLOURS = ["#3b5bdb", "#12a37f", "#e8793a", "#c2459b", "#7a5af0", "#2ba6cb", "#c99a06", "#d64550", "#6b7a99", "#5b8c3a", "#9d5c2f", "#4a4e9e", "#84a314", "#30343f"];
const DARK = ["#8aa2ff", "#4fd6ae", "#ff9d66", "#f07cc6", "#ab93ff", "#63cdea", "#f0c64a", "#ff7f87", "#9fadc9", "#98cf70", "#d99a68", "#8f94ea", "#c3dc5a", "#dfe3ea"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const palette = () => (dark.matches ? DARK : COLOURS);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function layout(more = {}) {
  const axis = { gridcolor: colour("--grid"), linecolor: colour("--line"), zeroline: false, tickfont: { color: colour("--soft") }, automargin: true, fixedrange: true };
  const { xaxis, yaxis, ...rest } = more;
  return {
    margin: { l: 8, r: 12, t: 8, b: 8 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("--soft") }, hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: colour("--ink") } },
    xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, rangemode: "tozero", ...yaxis }, ...rest,
  };
}

function plot(id, traces, more, words) {
  const place = at(id);
  if (!place.offsetParent) return;
  place.setAttribute("aria-label", place.closest("section").querySelector("h2").textContent);
  Plotly.react(place, traces, layout(more), { displayModeBar: false, responsive: true });
  at(id.replace("chart", "t")).textContent = words;
}

function line(x, y, name, color, more = {}) {
  return { x, y, name, mode: "lines", line: { color, width: 2.2, ...more }, hovertemplate: "%{y}" };
}

// Labels come from anyone, and Plotly would take <b> and <a> in them for markup.
function shown(label) {
  const letters = [...String(label)];
  const text = letters.length > 20 ? `${letters.slice(0, 19).join("")}…` : letters.join("");
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

const rowsAxis = { title: { text: "rows", standoff: 6 }, tickformat: "~s", rangemode: "tozero" };

function draw() {
  const { state, curves } = seen;
  if (!curves || !window.Plotly) return;
  const [accent, second] = palette();
  const format = regression() ? "~g" : ".1%";
  plot("chart-error", [
    line(curves.rows, curves.baseline_error, regression() ? "mean so far" : "majority class", colour("--soft"), { dash: "dot", width: 1.8 }),
    line(curves.rows, curves.error, "all rows", second),
    line(curves.rows, curves.window_error, "last 1,000 rows", accent),
    marks(state.drift.warnings),
  ], { xaxis: rowsAxis, yaxis: { tickformat: format } },
  state.rows ? `After ${plural(state.rows, "row")} the error is ${figure(state.error)}, of the last 1,000 rows ${figure(state.window_error)}, of the baseline ${figure(state.baseline_error)}.` : "No rows yet.");

  const shares = state.kernels.map((name, k) => ({
    ...line(curves.weight_rows, curves.kernel_weights.map((weights) => weights[k]), name, palette()[k % palette().length], { width: 0.8 }),
    stackgroup: "all", fillcolor: palette()[k % palette().length] + (dark.matches ? "b8" : "cc"), hovertemplate: "%{y:.1%}",
  }));
  const heaviest = state.kernels.map((name, k) => [state.kernel_weights[k], name]).sort((a, b) => b[0] - a[0]);
  plot("chart-weights", shares, { xaxis: rowsAxis, yaxis: { tickformat: ".0%", range: [0, 1] }, hovermode: "closest", showlegend: false },
    heaviest.slice(0, 3).map(([weight, name]) => `${name}: ${percent(weight, 0)}`).join(", ") || "No rows yet.");

  at("legend").replaceChildren(...state.kernels.map((name, k) => {
    const item = element("li", "", `${name}: ${percent(state.kernel_weights[k], 0)}`);
    item.style.setProperty("--swatch", palette()[k % palette().length]);
    return item;
  }));

  const classes = [...state.classes].sort((a, b) => b.rows - a.rows).slice(0, 12).reverse();
  at("h-classes").closest("section").hidden = regression();
  plot("chart-classes", [{
    type: "bar", orientation: "h", y: classes.map((_, i) => i), x: classes.map((each) => each.rows), marker: { color: accent, cornerradius: 4 },
    text: classes.map((each) => percent(each.rows / Math.max(state.rows, 1), 1)), textposition: "auto", textangle: 0, hovertemplate: "%{x:,} rows<extra></extra>", width: 0.62,
  }], { xaxis: { tickformat: "~s" }, yaxis: { tickvals: classes.map((_, i) => i), ticktext: classes.map((each) => ` ${shown(each.label)} `), tickfont: { color: colour("--ink") } }, hovermode: "closest", showlegend: false },
  state.classes.map((each) => `${each.label}: ${plural(each.rows, "row")}`).join(", ") || "No rows yet.");

  const times = seen.traffic.map((each) => new Date(1000 * each.at));
  const clock = { type: "date", tickformat: "%H:%M:%S", nticks: 4, rangemode: "normal" };
  plot("chart-traffic", [
    line(times, seen.traffic.map((each) => each.rows_per_second), "learned", accent),
    line(times, seen.traffic.map((each) => each.predictions_per_second), "predicted", second),
  ], { xaxis: clock, yaxis: { tickformat: "~s" } }, seen.traffic.length ? `${seen.traffic.at(-1).rows_per_second.toFixed(0)} rows learned a second.` : "");
  const last = seen.traffic.at(-1);
  const answered = last && last.latency_p99 !== null;
  plot("chart-latency", [
    { ...line(times, seen.traffic.map((each) => inMilliseconds(each.latency_p99)), "99 %", accent), connectgaps: true },
    { ...line(times, seen.traffic.map((each) => inMilliseconds(each.latency_p50)), "50 %", second), connectgaps: true },
  ], { xaxis: clock, yaxis: { tickformat: "~g" } }, answered ? `99 % of the requests of the last second within ${milliseconds(last.latency_p99)}.` : "No requests in the last second.");

  const bins = state.calibration;
  const largest = Math.max(1, ...bins.map((bin) => bin.rows));
  at("h-calibration").closest("section").hidden = regression();
  plot("chart-calibration", [
    { ...line([0, 1], [0, 1], "ideal", colour("--soft"), { dash: "dot", width: 1.5 }), hoverinfo: "skip", hovertemplate: undefined },
    { x: bins.map((bin) => bin.probability), y: bins.map((bin) => bin.accuracy), mode: "lines+markers", name: "model", line: { color: accent, width: 2 },
      marker: { size: bins.map((bin) => 7 + 11 * Math.sqrt(bin.rows / largest)), color: accent }, text: bins.map((bin) => plural(bin.rows, "row")),
      hovertemplate: "sure: %{x:.0%}<br>right: %{y:.0%}<br>%{text}<extra></extra>" },
  ], { xaxis: { tickformat: ".0%", range: calibrationRange(bins) }, yaxis: { tickformat: ".0%", range: calibrationRange(bins) }, hovermode: "closest", showlegend: false },
  bins.map((bin) => `${percent(bin.probability, 0)} sure: ${percent(bin.accuracy, 0)} right`).join(", ") || "Nothing to compare yet.");

  tables(state, curves, heaviest);
}

const calibrationRange = (bins) => [Math.max(0, Math.min(0.5, ...bins.map((bin) => Math.min(bin.accuracy, bin.probability))) - 0.06), 1.04];

// The name of largest size in an object of numbers, and its number.
function strongest(numbers) {
  const [name, value] = Object.entries(numbers).reduce((a, b) => Math.abs(b[1]) > Math.abs(a[1]) ? b : a, ["", 0]);
  return name && `${name}: ${value.toFixed(2)}`;
}

function marks(warnings) {
  return { x: warnings.map((each) => each.rows), y: warnings.map((each) => each.window_error), mode: "markers", name: "drift warning", showlegend: warnings.length > 0,
    marker: { symbol: "triangle-up", size: 11, color: colour("--warn") }, hovertemplate: "%{y}" };
}

function tables(state, curves, heaviest) {
  if (!document.querySelector(".numbers").open) return;
  const steps = Math.max(1, Math.ceil(curves.rows.length / 40));
  const chosen = curves.rows.map((_, i) => i).filter((i) => i % steps === 0 || i === curves.rows.length - 1);
  fill("table-error", chosen.map((i) => [whole.format(curves.rows[i]), figure(curves.window_error[i]), figure(curves.error[i]), figure(curves.baseline_error[i])]));
  fill("table-weights", heaviest.map(([weight, name]) => [name, percent(weight)]));
  fill("table-drift-events", state.drift_events.map((each) => [whole.format(each.rows), each.sudden ? "sudden" : "gradual", each.strength.toFixed(1), strongest(each.experts), strongest(each.columns)]).reverse());
  fill("table-drift", state.drift.warnings.map((each) => [whole.format(each.rows), figure(each.error_before), figure(each.window_error)]));
}

function fill(id, rows) {
  const body = at(id).tBodies[0];
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell })));
    return row;
  }));
}

// ------------------------------------------------------------ one row by hand

function form(state) {
  const names = JSON.stringify(state.columns);
  at("classes").replaceChildren(...state.classes.map((each) => Object.assign(document.createElement("option"), { value: each.label })));
  if (names === seen.columns) return;
  seen.columns = names;
  at("predict").disabled = state.columns.length === 0;
  at("hand-hint").textContent = state.columns.length ? "Predict it, then tell the model what it really was." : "The columns appear with the first row.";
  at("fields").replaceChildren(...state.columns.map(({ name, kind }, i) => {
    const field = document.createElement("div");
    const caption = Object.assign(document.createElement("label"), { textContent: name, htmlFor: `cell-${i}`, title: `${name} (${kind})` });
    const input = Object.assign(document.createElement("input"), { id: `cell-${i}`, name, placeholder: kind === "number" ? "0" : kind || "" });
    if (kind === "number") Object.assign(input, { inputMode: "decimal" });
    input.dataset.kind = kind;
    field.append(caption, input);
    return field;
  }));
}

function cell(input) {
  const text = input.value.trim();
  if (input.dataset.kind === "number") {
    const value = Number(text || "0");
    if (!Number.isFinite(value)) throw new Error(`${input.name} must be a number. Got "${text}" instead.`);
    return value;
  }
  if (text === "") return null;
  return input.dataset.kind === "boolean" ? /^(true|yes|1)$/i.test(text) : text;
}

function say(...parts) {
  at("answer").replaceChildren(...parts);
}

const element = (name, kind, text) => Object.assign(document.createElement(name), { className: kind, textContent: text });

function typedLabel(text) {
  const known = seen.state.classes.find((each) => String(each.label) === text);
  if (known) return known.label;
  const sample = seen.state.classes[0]?.label;
  if (regression() || typeof sample === "number") return Number(text);
  if (typeof sample === "boolean") return /^(true|yes|1)$/i.test(text);
  return text;
}

at("hand").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const row = {};
    for (const input of at("fields").querySelectorAll("input")) row[input.name] = cell(input);
    waitingId = `page-${crypto.randomUUID ? crypto.randomUUID() : Date.now() + "-" + Math.random()}`;
    const answer = await send("/v1/predict", { row, id: waitingId });
    const bars = Object.entries(answer.probabilities ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, share]) => {
      const bar = element("div", "bar", "");
      bar.append(element("span", "", name), Object.assign(document.createElement("progress"), { max: 1, value: share, ariaLabel: name }), element("span", "", percent(share, 1)));
      return bar;
    });
    say(element("p", "said", answer.prediction === null ? "Nothing learned yet" : `Prediction: ${answer.prediction}`), ...bars);
    at("label").hidden = false;
  } catch (error) {
    say(element("p", "problem", error.message));
  }
});

at("label").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await send("/v1/label", { id: waitingId, y: typedLabel(at("y").value.trim()) });
    say(element("p", "said", `Learned. That was row ${whole.format(answer.rows)}.`));
    at("label").hidden = true;
    at("y").value = "";
  } catch (error) {
    say(element("p", "problem", error.message));
  }
});

at("report").addEventListener("click", async (event) => {
  if (!token) return;
  event.preventDefault(); // a link cannot send the token
  window.open(URL.createObjectURL(await (await ask("/v1/report")).blob()), "_blank");
});

at("download").addEventListener("click", async (event) => {
  if (!token) return;
  event.preventDefault(); // a link cannot send the token
  const file = await (await ask("/v1/model")).blob();
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "model.bomkl" });
  link.click();
  URL.revokeObjectURL(link.href);
});

dark.addEventListener("change", draw);
document.querySelector(".numbers").addEventListener("toggle", draw);
listen();
