import type { RequestedOutput } from './v2-outputs.ts';

/** The names of the outputs listed, each once, in the order of their first mention. */
export function requestedNames(outputs: readonly Pick<RequestedOutput, 'name'>[]): readonly string[] {
  const names: string[] = [];
  const seen = outputs.length > 1 ? new Set<string>() : undefined;
  for (const { name } of outputs) {
    if (seen?.has(name)) continue;
    seen?.add(name);
    names.push(name);
  }
  return names;
}
