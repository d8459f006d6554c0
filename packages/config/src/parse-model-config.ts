import { createRegistry, type DescEnum } from '@bufbuild/protobuf';
import { isReflectMessage, type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { fromText } from '@bufbuild/protobuf/txtpb';
import { NereidError } from '@nereid/protocol';
import { file_model_config, type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { suggestion } from './name-suggestion.ts';
import { fieldBefore, type TextToken, textPosition, textTokens, unclosedBracket } from './text-tokens.ts';

/**
 * Reads a `config.pbtxt` (protobuf text format). `source` names it in errors.
 * Throws INVALID_ARG with `<source>:<line>:<column>: …` for a syntax error, an unknown field or enum
 * value, a field given twice, a value out of its type's range, or a text over LIMITS.config_bytes_max.
 */
export function parseModelConfig(text: string, source: string): ModelConfig {
  if (text.length > LIMITS.config_bytes_max) {
    const size = `${text.length} characters, more than ${LIMITS.config_bytes_max}`;
    throw new NereidError('INVALID_ARG', `${source}: the model configuration has ${size}`);
  }
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const config = parsed(body, source);
  checkKeys(body, source);
  checkEnums(reflect(ModelConfigSchema, config), (name, value, allowed) => {
    const tokens = textTokens(body);
    const at = tokens.findIndex(
      (token, i) => token.text === name && tokens[i + 1]?.text === ':' && Number(tokens[i + 2]?.text) === value,
    );
    const position = textPosition(body, tokens[at + 2]?.offset ?? 0);
    const names = allowed.values.map((one) => one.name).join(', ');
    throw new NereidError(
      'INVALID_ARG',
      `${source}:${position}: ${name} has no value ${value}; it is one of ${names}`,
      {
        field: name,
      },
    );
  });
  return config;
}

/** A map's key of this name would be taken for the prototype of what holds the entries, and the entry be lost. */
function checkKeys(body: string, source: string): void {
  if (!body.includes(PROTOTYPE)) return;
  const tokens = textTokens(body);
  const at = tokens.findIndex(
    ({ text }, index) => text === 'key' && /^(["'])__proto__\1$/.test(tokens[index + 2]?.text ?? ''),
  );
  if (at === -1) return;
  const position = textPosition(body, tokens[at + 2]?.offset ?? 0);
  throw new NereidError('INVALID_ARG', `${source}:${position}: key: the name ${PROTOTYPE} cannot be used`, {
    field: 'key',
  });
}

const PROTOTYPE = '__proto__';

function parsed(body: string, source: string): ModelConfig {
  try {
    return fromText(ModelConfigSchema, body);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const tokens = textTokens(body);
    const index = failingToken(body, tokens);
    const token = tokens[index];
    const field = fieldBefore(tokens, index);
    const open = token === undefined ? unclosedBracket(tokens) : undefined;
    const hint = open === undefined ? '' : ` ("${open.text}" of line ${textPosition(body, open.offset)} is not closed)`;
    const position = textPosition(body, token?.offset ?? body.length);
    throw new NereidError('INVALID_ARG', `${source}:${position}: ${explained(reason, field)}${hint}`, {
      ...(field === undefined ? {} : { field }),
      cause: error,
    });
  }
}

/** No token of the grammar, so the parser stops at it if it comes so far. */
const SENTINEL = '\u0001';

/**
 * Index of the token at which the parser gives up (the parser itself does not tell). It reads from
 * left to right, so a text cut before that token and ended by the sentinel fails at the sentinel,
 * and one cut later fails as the whole does: the border is found by halving.
 */
function failingToken(body: string, tokens: readonly TextToken[]): number {
  let low = 0;
  let high = tokens.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const last = tokens[middle];
    if (last === undefined) break;
    if (reachesEnd(body.slice(0, last.offset + last.text.length))) low = middle + 1;
    else high = middle;
  }
  return low;
}

function reachesEnd(prefix: string): boolean {
  try {
    fromText(ModelConfigSchema, `${prefix}\n${SENTINEL}`);
    return true;
  } catch (error) {
    return error instanceof Error && error.message === 'unexpected U+0001';
  }
}

const registry = createRegistry(file_model_config);

/** The parser's reason, with what would have been right. */
function explained(reason: string, field: string | undefined): string {
  const unknownField = /^unknown field "([^"]*)" for message (\S+)$/.exec(reason);
  const message = registry.getMessage(unknownField?.[2] ?? '');
  if (unknownField !== null && message !== undefined) {
    const names = message.fields.map((one) => one.name);
    return `unknown field "${unknownField[1]}" in ${message.name}; ${suggestion(unknownField[1] ?? '', names)}`;
  }
  const choice = /^oneof "(\w+)" is already set$/.exec(reason);
  if (choice !== null) {
    const members =
      ModelConfigSchema.oneofs.find(({ name }) => name === choice[1])?.fields.map(({ name }) => name) ?? [];
    const names = members.length === 0 ? 'its members' : members.join(', ');
    return `${reason}: only one of ${names} can be given`;
  }
  const unknownValue = /^unknown enum value "([^"]*)" for enum (\S+)$/.exec(reason);
  const values = registry.getEnum(unknownValue?.[2] ?? '');
  if (unknownValue !== null && values !== undefined) {
    const names = values.values.map((one) => one.name);
    const what = field === undefined ? values.name : field;
    return `unknown value "${unknownValue[1]}" for ${what}; ${suggestion(unknownValue[1] ?? '', names)}`;
  }
  // "cannot decode field inference.ModelConfig.max_batch_size from text format: …" names it already.
  return field === undefined || reason.includes(field) ? reason : `${field}: ${reason}`;
}

/** Calls `refuse` for the first enum field whose number has no name; the text format lets those pass. */
function checkEnums(view: ReflectMessage, refuse: (field: string, value: number, allowed: DescEnum) => never): void {
  const check = (item: unknown) => {
    if (isReflectMessage(item)) checkEnums(item, refuse);
  };
  for (const field of view.fields) {
    if (!view.isSet(field)) continue;
    if (field.fieldKind === 'enum') {
      const value = view.get(field);
      if (field.enum.value[value] === undefined) refuse(field.name, value, field.enum);
    } else if (field.fieldKind === 'message') {
      check(view.get(field));
    } else if (field.fieldKind === 'list') {
      for (const item of view.get(field)) check(item);
    } else if (field.fieldKind === 'map') {
      for (const item of view.get(field).values()) check(item);
    }
  }
}
