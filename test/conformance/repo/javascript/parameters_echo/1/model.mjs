/** Answers with the request's parameters, id and timeout as JSON text. */
export function execute(requests) {
  return requests.map(({ id, parameters, timeoutUs }) => {
    const text = pythonJson({ id, parameters, timeout: timeoutUs });
    return { outputs: { SEEN: { datatype: 'BYTES', shape: [1], data: [Buffer.from(text)] } } };
  });
}

/** As Python's json.dumps with sorted keys writes it, since the recorded cases compare the text. */
function pythonJson(value) {
  if (typeof value === 'string') return ascii(JSON.stringify(value));
  if (typeof value !== 'object') return String(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${pythonJson(name)}: ${pythonJson(value[name])}`).join(', ')}}`;
}

function ascii(json) {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
