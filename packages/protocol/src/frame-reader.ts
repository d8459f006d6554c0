/**
 * Readers that turn a frame's unpacked header into typed values and refuse what does not fit. A
 * record reads exactly its own members; what a newer version added is left aside.
 */
import { type FrameBody, frameError } from './frame-body.ts';

/** Takes a value from the header; throws INTERNAL where it is of the wrong kind. */
export type FrameReader<T> = (value: unknown, body: FrameBody) => T;

function refused(wanted: string): never {
  throw frameError(`${wanted} expected`);
}

export const text: FrameReader<string> = (value) => (typeof value === 'string' ? value : refused('text'));
export const flag: FrameReader<boolean> = (value) => (typeof value === 'boolean' ? value : refused('boolean'));
export const number: FrameReader<number> = (value) => (typeof value === 'number' ? value : refused('number'));
export const integer: FrameReader<number> = (value) =>
  Number.isSafeInteger(value) ? (value as number) : refused('integer');
export const count: FrameReader<number> = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : refused('count');
export const long: FrameReader<bigint> = (value) => (typeof value === 'bigint' ? value : refused('64-bit integer'));

export function nullable<T>(read: FrameReader<T>): FrameReader<T | null> {
  return (value, body) => (value === null ? null : read(value, body));
}

export function list<T>(read: FrameReader<T>): FrameReader<readonly T[]> {
  return (value, body) => (Array.isArray(value) ? value.map((item) => read(item, body)) : refused('list'));
}

export function oneOf<T extends string>(values: readonly T[]): FrameReader<T> {
  return (value) => values.find((known) => known === value) ?? refused(values.join(' or '));
}

/** A record of these members, in this order. */
export function record<T extends object>(readers: { readonly [K in keyof T]-?: FrameReader<T[K]> }): FrameReader<T> {
  const entries = Object.entries(readers) as [string, FrameReader<unknown>][];
  return (value, body) => {
    if (typeof value !== 'object' || value === null) refused('record');
    const members = value as Readonly<Record<string, unknown>>;
    const result: Record<string, unknown> = {};
    for (const [name, read] of entries) result[name] = read(members[name], body);
    return result as T;
  };
}
