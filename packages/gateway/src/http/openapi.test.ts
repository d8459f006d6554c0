import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, readyVersion, SIMPLE } from '../gateway-fixture.ts';
import { httpFixture } from './http-fixture.ts';

const WORDS = `
name: "words" backend: "javascript" model_transaction_policy { decoupled: true }
input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }, { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "WORD" data_type: TYPE_STRING dims: [ 1 ] } ]`;
const OPTIONAL = `
name: "optional" backend: "javascript" max_batch_size: 4
input [
  { name: "INPUT0" data_type: TYPE_FP64 dims: [ -1, 3 ] },
  { name: "INPUT1" data_type: TYPE_UINT64 dims: [ 2 ] optional: true }
]
output [ { name: "OUTPUT0" data_type: TYPE_FP64 dims: [ -1, 3 ] } ]`;
const TYPES = ['BOOL', 'UINT8', 'INT8', 'UINT16', 'INT16', 'UINT32', 'INT64', 'FP32', 'STRING'];

const MODELS = [
  modelRecord(SIMPLE, [readyVersion('1'), { version: '2', state: 'LOADING', reason: '' }, readyVersion('3')]),
  modelRecord(WORDS),
  modelRecord(OPTIONAL),
  modelRecord(identity('half', 'FP16')),
  modelRecord(identity('large', 'FP32', '1000, 1000')),
  modelRecord(identity('gone', 'FP32'), [{ version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }]),
  modelRecord(identity("a&b'c", 'INT32')),
  modelRecord(identity('a_b_c', 'INT32')),
  modelRecord(identity('with space', 'INT32')),
  modelRecord(identity('with{brace}', 'INT32')),
  ...TYPES.map((type) => modelRecord(identity(`type_${type}`, type))),
];

type Schema = Readonly<Record<string, unknown>>;
interface Operation {
  readonly operationId: string;
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>;
  };
}
interface Document {
  readonly paths: Readonly<Record<string, { readonly get?: Operation; readonly post?: Operation }>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const fixture = (models = MODELS) => httpFixture({ models, answer: echo });

async function documentOf(models = MODELS): Promise<Document> {
  const { http } = await fixture(models);
  return (await http.inject({ method: 'GET', url: '/openapi.json' })).json();
}

const jsonBody = (document: Document, path: string) =>
  document.paths[path]?.post?.requestBody?.content['application/json'];

describe('the document', () => {
  it('is valid OpenAPI 3.1', async () => {
    const validator = new Validator();
    const document = await documentOf();
    expect(await validator.validate(JSON.parse(JSON.stringify(document)))).toEqual({ valid: true });
    expect(validator.version).toBe('3.1');
    const { paths } = document;
    const ids = Object.values(paths).flatMap(({ get, post }) => [get, post].flatMap((one) => one?.operationId ?? []));
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('has the models that are ready, each with its ready versions', async () => {
    const { paths } = await documentOf();
    const infer = Object.keys(paths).filter((path) => path.endsWith('/infer'));
    const versionOne = (name: string) => [`/v2/models/${name}/infer`, `/v2/models/${name}/versions/1/infer`];
    expect(infer.toSorted()).toEqual(
      [
        ...['simple', 'optional', 'half', 'large', "a&b'c", 'a_b_c'].flatMap(versionOne),
        ...['with%20space', 'with%7Bbrace%7D', ...TYPES.map((type) => `type_${type}`)].flatMap(versionOne),
        '/v2/models/simple/versions/3/infer',
      ].toSorted(),
    );
    expect(Object.keys(paths)).toEqual(expect.arrayContaining(['/v2', '/v2/health/ready', '/v2/jobs/{job}/result']));
  });

  it('has generate where text goes in, and only a stream of it for a decoupled model', async () => {
    const { paths } = await documentOf();
    const generate = Object.keys(paths).filter((path) => /\/[a-zA-Z_]+\/generate(_stream)?$/.test(path));
    expect(generate.toSorted()).toEqual([
      '/v2/models/type_STRING/generate',
      '/v2/models/type_STRING/generate_stream',
      '/v2/models/words/generate_stream',
    ]);
  });

  it('says of inputs what a request must be', async () => {
    const document = await documentOf();
    const schema = Object.entries(document.components.schemas).find(([name]) => name.startsWith('optional.'))?.[1];
    expect(schema).toMatchObject({
      properties: {
        inputs: {
          minItems: 1,
          maxItems: 2,
          items: {
            oneOf: [
              {
                properties: {
                  name: { const: 'INPUT0' },
                  datatype: { const: 'FP64' },
                  shape: {
                    prefixItems: [
                      { type: 'integer', minimum: 1, maximum: 4 },
                      { type: 'integer', minimum: 0 },
                      { const: 3 },
                    ],
                    minItems: 3,
                    maxItems: 3,
                  },
                },
              },
              { properties: { name: { const: 'INPUT1' } }, description: 'May be left out.' },
            ],
          },
        },
      },
    });
  });

  it('is made once until a record changes', async () => {
    const { http, directory } = await fixture();
    const read = async () => (await http.inject({ method: 'GET', url: '/openapi.json' })).body;
    const first = await read();
    expect(await read()).toBe(first);
    await directory.publish('gone', modelRecord(identity('gone', 'FP32')));
    const second = await read();
    expect(Object.keys(JSON.parse(second).paths)).toContain('/v2/models/gone/infer');
    await directory.withdraw('gone');
    expect(await read()).toBe(first);
  });
});

describe('an example', () => {
  it('is taken by the server, and fits its own schema', async () => {
    const { http } = await fixture();
    const document = await documentOf();
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: 'document', ...document });
    const without: string[] = [];
    for (const [path, { post }] of Object.entries(document.paths)) {
      if (post === undefined || !path.endsWith('/infer')) continue;
      const body = jsonBody(document, path);
      if (body?.example === undefined) {
        without.push(path);
        continue;
      }
      const response = await http.inject({ method: 'POST', url: path, payload: JSON.stringify(body.example) });
      expect([path, response.statusCode, response.body]).toEqual([path, 200, expect.anything()]);
      const { $ref } = body.schema as { $ref: string };
      expect(ajv.validate({ $ref: `document${$ref}` }, body.example), `${path}: ${ajv.errorsText()}`).toBe(true);
    }
    // Halves have no form in JSON, and a million numbers are no example.
    expect(without).toEqual(
      ['half', 'large'].flatMap((name) => [`/v2/models/${name}/infer`, `/v2/models/${name}/versions/1/infer`]),
    );
  });

  it('that is wrong does not fit the schema', async () => {
    const document = await documentOf();
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: 'document', ...document });
    const body = jsonBody(document, '/v2/models/simple/infer');
    if (body === undefined) throw new Error('no such path');
    const { $ref } = body.schema as { $ref: string };
    const good = body.example as { inputs: { shape: number[]; datatype: string; data: unknown[] }[] };
    const changed = (change: (input: (typeof good.inputs)[0]) => void) => {
      const copy = structuredClone(good);
      for (const input of copy.inputs) change(input);
      return copy;
    };
    for (const wrong of [
      { inputs: [] },
      changed((input) => (input.shape = [9, 2])),
      changed((input) => (input.datatype = 'FP32')),
      changed((input) => (input.data = ['1', '2'])),
    ]) {
      expect(ajv.validate({ $ref: `document${$ref}` }, wrong)).toBe(false);
    }
  });
});

describe('the page', () => {
  it('allows its own script and style by their hashes, and requests to this server', async () => {
    const { http } = await fixture();
    const response = await http.inject({ method: 'GET', url: '/openapi' });
    expect([response.statusCode, response.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    const policy = String(response.headers['content-security-policy']);
    expect(policy).toMatch(
      /^default-src 'none'; script-src 'sha256-[\w+/=]{44}'; style-src 'sha256-[\w+/=]{44}'; connect-src 'self'; /,
    );
    expect(policy).not.toContain('unsafe');
    expect(response.body).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    expect(response.body).toContain('addEventListener');
  });

  it.each(['/openapi', '/openapi.json'])('%s takes only GET, and its path whole', async (url) => {
    const { http } = await fixture();
    const answers = await Promise.all([
      http.inject({ method: 'POST', url }),
      http.inject({ method: 'GET', url: `${url}/` }),
      http.inject({ method: 'GET', url: '/openapixjson' }),
    ]);
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([405, 404, 404]);
  });
});
