import { NereidError } from './error.ts';

const URL_CHARACTERS_MAX = 2_048;
const BLANK = /[\s\p{Cc}]/u;

/**
 * The URL that a job's end is told to; undefined for none. Throws INVALID_ARG, naming `field`, where it is no URL that
 * can be told: not of http or https, with a user or password in it, or too long.
 */
export function webhookUrl(value: unknown, field: string): string | undefined {
  if (value === undefined) return undefined;
  const why = whyNot(value);
  if (why === undefined) return value as string;
  throw new NereidError('INVALID_ARG', `${field} must be a URL of http or https: ${why}`, { field });
}

function whyNot(value: unknown): string | undefined {
  if (typeof value !== 'string') return `it is of type ${value === null ? 'null' : typeof value}`;
  if (value.length > URL_CHARACTERS_MAX) return `it has more than ${URL_CHARACTERS_MAX} characters`;
  // Two headers are one with a comma and a blank between, which would pass for a URL.
  if (BLANK.test(value))
    return `it has a blank or a control character; give one URL, escaped: ${JSON.stringify(value)}`;
  if (!URL.canParse(value)) return `got: ${value}`;
  const { protocol, username, password } = new URL(value);
  if (protocol !== 'http:' && protocol !== 'https:') return `got: ${value}`;
  // They would stand in Redis and in every listing.
  return username === '' && password === '' ? undefined : 'leave user and password out; the signature tells who sends';
}
