/**
 * JSON as a tree that can also be wrong: `{ object: [[name, node], …] }`, `{ array: [node, …] }`, `{ string }`,
 * `{ bytes }` (what stands between the quotes) and `{ text }` (any other text, as it is).
 */

/** The tree of a plain value. */
export function treeOf(value) {
  if (Array.isArray(value)) return { array: value.map(treeOf) };
  if (value !== null && typeof value === 'object') {
    return { object: Object.entries(value).map(([name, member]) => [name, treeOf(member)]) };
  }
  if (typeof value === 'string') return { string: value };
  return { text: String(value) };
}

/** A member's node. */
export function member(node, name) {
  return node?.object?.find(([key]) => key === name)?.[1];
}

/** Sets a member of an object, or adds it. */
export function setMember(node, name, value) {
  if (node.object === undefined) return;
  const found = node.object.find(([key]) => key === name);
  if (found === undefined) node.object.push([name, value]);
  else found[1] = value;
}

/** All nodes below and with this one, each with its parent and its place there. */
export function walk(node, parent = undefined, key = undefined, found = []) {
  found.push({ node, parent, key });
  for (const [index, [, value]] of (node.object ?? []).entries()) walk(value, node, index, found);
  for (const [index, value] of (node.array ?? []).entries()) walk(value, node, index, found);
  return found;
}

/** Puts another node in a node's place. */
export function replace({ node, parent, key }, other) {
  if (parent === undefined) {
    for (const name of Object.keys(node)) delete node[name];
    Object.assign(node, other);
  } else if (parent.object !== undefined) parent.object[key][1] = other;
  else parent.array[key] = other;
}

/** The text. `style.spaces` and `style.escapes` are shares of the places that get white space, and of escaped letters. */
export function writeJson(node, style = {}, dice = undefined) {
  const parts = [];
  const space = () => {
    if (style.spaces > 0 && dice.chance(style.spaces)) parts.push(dice.pick([' ', '\n', '\t', '\r\n', '    ']));
  };
  const put = (one) => {
    space();
    if (one.object !== undefined) putObject(one.object);
    else if (one.array !== undefined) putArray(one.array);
    else if (one.bytes !== undefined) parts.push('"', one.bytes, '"');
    else if (one.string !== undefined) parts.push(quoted(one.string, style, dice));
    else parts.push(one.text);
    space();
  };
  const putObject = (members) => {
    parts.push('{');
    for (const [index, [name, value]] of members.entries()) {
      if (index > 0) parts.push(',');
      space();
      parts.push(quoted(name, style, dice));
      space();
      parts.push(':');
      put(value);
    }
    parts.push('}');
  };
  const putArray = (items) => {
    parts.push('[');
    for (const [index, item] of items.entries()) {
      if (index > 0) parts.push(',');
      put(item);
    }
    parts.push(']');
  };
  put(node);
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
}

function quoted(text, { escapes = 0 }, dice) {
  if (escapes === 0) return JSON.stringify(text);
  // By UTF-16 units: a pair of surrogates is escaped as a pair, or not at all.
  const letters = Array.from(text, (letter) => {
    if (!dice.chance(escapes)) return JSON.stringify(letter).slice(1, -1);
    if (letter === '/') return '\\/';
    return Array.from({ length: letter.length }, (_, at) => {
      const hex = letter.charCodeAt(at).toString(16).padStart(4, '0');
      return `\\u${dice.chance(0.5) ? hex : hex.toUpperCase()}`;
    }).join('');
  });
  return `"${letters.join('')}"`;
}

/**
 * Reads a JSON answer: numbers as `{ number: text }` with NaN and the infinities among them, strings as their bytes in
 * Latin-1, objects as Maps. Throws for what is no JSON, and for a name given twice.
 */
export function readJson(bytes) {
  const text = bytes.toString('latin1');
  let at = 0;
  const fail = (what) => {
    throw new Error(`${what} at ${at}: ${JSON.stringify(text.slice(Math.max(0, at - 20), at + 20))}`);
  };
  const skip = () => {
    while (' \n\r\t'.includes(text[at] ?? 'x')) at += 1;
  };
  const take = (what) => {
    if (!text.startsWith(what, at)) fail(`no ${what}`);
    at += what.length;
  };
  const string = () => {
    take('"');
    const start = at;
    while (text[at] !== '"') {
      if (at >= text.length || text.charCodeAt(at) < 0x20) fail('a string without an end');
      at += text[at] === '\\' ? 2 : 1;
    }
    const inside = text.slice(start, at);
    at += 1;
    return inside.includes('\\') ? unescaped(inside) : inside;
  };
  const list = (open, close, entry) => {
    take(open);
    skip();
    if (text[at] === close) {
      at += 1;
      return;
    }
    for (;;) {
      entry();
      skip();
      if (text[at] === close) {
        at += 1;
        return;
      }
      take(',');
      skip();
    }
  };
  const value = () => {
    skip();
    if (text[at] === '{') {
      const members = new Map();
      list('{', '}', () => {
        const name = string();
        skip();
        take(':');
        if (members.has(name)) fail(`${name} is given twice`);
        members.set(name, value());
      });
      return members;
    }
    if (text[at] === '[') {
      const items = [];
      list('[', ']', () => items.push(value()));
      return items;
    }
    if (text[at] === '"') return string();
    const word = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|-?Infinity)(?![\w.+-])/.exec(
      text.slice(at, at + 400),
    )?.[0];
    if (word === undefined) fail('no value');
    at += word.length;
    if (word === 'null') return null;
    return word === 'true' || word === 'false' ? word === 'true' : { number: word };
  };
  const result = value();
  skip();
  if (at !== text.length) fail('something behind the document');
  return result;
}

/** Bytes in Latin-1 of a string with escapes. */
function unescaped(inside) {
  return inside.replaceAll(
    /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\./gs,
    (letter) => Buffer.from(JSON.parse(`"${letter}"`)).toString('latin1'),
  );
}

/** Text in the form in which `readJson` gives strings. */
export function asRead(text) {
  return Buffer.from(text).toString('latin1');
}
