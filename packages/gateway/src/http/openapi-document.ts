import type { ModelFound } from '@nereid/caller';
import { EXPLAINED_SCHEMAS } from './openapi-explained.ts';
import { generalPaths } from './openapi-general.ts';
import { modelPart } from './openapi-model.ts';
import { dataSchema, dataSchemaName, GENERAL_SCHEMAS, hasJsonForm, type Schema } from './openapi-schemas.ts';

/** What component names are made of. */
const NO_KEY = /[^\w.-]/g;

/** The OpenAPI 3.1 document of the models that are READY, which come in the order of their names. */
export function openApiDocument(models: readonly ModelFound[], version: string): Schema {
  const paths: Record<string, Record<string, Schema>> = {};
  const schemas: Record<string, Schema> = { ...GENERAL_SCHEMAS, ...EXPLAINED_SCHEMAS };
  const tags = [{ name: 'server' }, { name: 'jobs' }];
  for (const [index, found] of models.entries()) {
    const { name } = found.record;
    // Two names may be alike in what is left of them.
    const key = `${name.replaceAll(NO_KEY, '_')}.${index}`;
    const part = modelPart(found, key);
    Object.assign(paths, part.paths);
    Object.assign(schemas, part.schemas);
    for (const datatype of part.datatypes)
      if (hasJsonForm(datatype)) schemas[dataSchemaName(datatype)] = dataSchema(datatype);
    tags.push({ name });
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Nereid',
      version,
      summary: 'The models that this server serves now, by the KServe v2 protocol.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags,
    // Behind the models': a model named `stats` has no metadata of its own.
    paths: { ...paths, ...generalPaths() },
    components: { schemas },
  };
}
