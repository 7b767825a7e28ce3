// The overview as it goes on: `GET /v1/live`, read by fetch, because an EventSource cannot carry a token.

const FIRST_PAUSE = 500, LONGEST_PAUSE = 5000; // milliseconds between two attempts to connect
const SILENCE = 6000; // milliseconds without an event, after which the connection is given up

export function merged(target, patch) { // a JSON merge patch, RFC 7386
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const result = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

async function* events(response, heard) {
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    text += decoder.decode(value, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop();
    for (const event of whole) {
      const found = {};
      for (const line of event.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) found[line.slice(0, at)] = line.slice(at + 2);
      }
      if (found.event) yield { kind: found.event, data: JSON.parse(found.data) };
    }
  }
}

async function refusal(response) { // its sentence
  const answer = await response.json().catch(() => null);
  return answer?.error?.message ?? `status ${response.status}`;
}

// Calls `told(kind, data)` for each event and `state(connected, why)` when that changes, until the page goes. `why`: what
// the proxy says instead. A page that nobody sees does not look. `authorization()`: the headers of a request.
export function follow({ authorization, told, state }) {
  let pause = FIRST_PAUSE, stop = null, timer = 0;

  async function connect() {
    clearTimeout(timer);
    const ending = new AbortController();
    stop = ending;
    let silence = 0, why = "";
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => ending.abort(), SILENCE);
    };
    try {
      heard();
      const response = await fetch("/v1/live", { headers: authorization(), signal: ending.signal, cache: "no-store" });
      if (!response.ok) why = await refusal(response);
      for await (const { kind, data } of why ? [] : events(response, heard)) {
        if (ending !== stop) break;
        pause = FIRST_PAUSE;
        state(true);
        told(kind, data);
      }
    } catch {
      // the proxy is away: tried again below
    } finally {
      clearTimeout(silence);
      ending.abort();
    }
    if (ending !== stop || document.hidden) return;
    state(false, why);
    timer = setTimeout(connect, pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }

  function again() {
    if (stop) stop.abort();
    stop = null;
    clearTimeout(timer);
    if (!document.hidden) connect();
  }

  document.addEventListener("visibilitychange", again);
  again();
  return again;
}
