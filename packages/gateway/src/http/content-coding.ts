/** How a body is encoded for its way; deflate is zlib's form of it. */
export type ContentCoding = 'identity' | 'gzip' | 'deflate';

const CODINGS: ReadonlyMap<string, ContentCoding> = new Map([
  ['identity', 'identity'],
  ['gzip', 'gzip'],
  ['deflate', 'deflate'],
]);

/** What is told to a client whose body has a coding that is not taken. */
export const CODINGS_TAKEN = 'gzip, deflate';

/** The coding that `Content-Encoding` names; undefined for one that is not taken, and for several. */
export function bodyCoding(header: string | undefined): ContentCoding | undefined {
  if (header === undefined || header === '') return 'identity';
  return CODINGS.get(header.trim().toLowerCase());
}

/**
 * The coding of an answer by `Accept-Encoding`: the one of the greatest weight, of equal ones the
 * first (http_server.cc, GetResponseCompressionType). What is not known, also `*`, asks for nothing.
 */
export function answerCoding(header: string): ContentCoding {
  let best: ContentCoding = 'identity';
  let bestWeight = 0;
  for (const entry of header.split(',')) {
    const [name = '', ...parameters] = entry.split(';');
    const coding = CODINGS.get(name.trim().toLowerCase());
    if (coding === undefined) continue;
    const weight = weightOf(parameters);
    if (weight <= bestWeight) continue;
    best = coding;
    bestWeight = weight;
  }
  return best;
}

/** 1 where none is given, 0 for one that cannot be read: an answer that is not encoded suits everybody. */
function weightOf(parameters: readonly string[]): number {
  for (const parameter of parameters) {
    const [, weight] = /^\s*q\s*=(.*)$/i.exec(parameter) ?? [];
    if (weight === undefined) continue;
    const text = weight.trim();
    return /^[0-9]+(\.[0-9]*)?$/.test(text) ? Number(text) : 0;
  }
  return 1;
}
