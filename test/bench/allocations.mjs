/**
 * What a sampling heap profile says was allocated: bytes in all, and by function, most first. V8 has scaled each sample
 * up to what it stands for.
 *
 * @param {{ head: object }} profile
 */
export function allocations({ head }) {
  const own = new Map();
  let bytes = 0;
  const visit = ({ callFrame, selfSize, children }) => {
    const { functionName, url, lineNumber } = callFrame;
    const name = functionName === '' ? '(anonymous)' : functionName;
    const place = url === '' ? '' : `${url.split('/').slice(-4).join('/')}:${lineNumber + 1}`;
    const key = `${name} ${place}`;
    own.set(key, { name, place, bytes: (own.get(key)?.bytes ?? 0) + selfSize });
    bytes += selfSize;
    for (const child of children) visit(child);
  };
  visit(head);
  return { bytes, by: [...own.values()].toSorted((a, b) => b.bytes - a.bytes) };
}
