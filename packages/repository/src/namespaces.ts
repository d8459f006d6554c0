/** What models are called where repositories may hold models of the same name. */

/** A model's folder. */
export interface ModelFolder {
  /** The repository's, as errors name it. */
  readonly place: string;
  readonly folder: string;
}

/** Between a namespace and a name, as Triton prints it. */
const SEPARATOR = '::';

/**
 * A namespace for each repository: as much of the end of its path as tells it from all others, its last part in most
 * cases. In Triton it is the whole path.
 */
export function namespacesOf(places: readonly string[]): ReadonlyMap<string, string> {
  const paths = new Map(places.map((place) => [place, place.replace(/\/+$/, '').split('/')]));
  const shortest = (place: string, path: readonly string[]) => {
    for (let parts = 1; parts < path.length; parts++) {
      const end = path.slice(-parts).join('/');
      const isShared = [...paths].some(([other, its]) => other !== place && its.slice(-parts).join('/') === end);
      if (end !== '' && !isShared) return end;
    }
    return place;
  };
  return new Map([...paths].map(([place, path]) => [place, shortest(place, path)]));
}

/**
 * What each model is asked for by: its folder's name where no other repository has one of that name, else with the
 * repository's namespace before it.
 */
export function modelNames<T extends ModelFolder>(
  models: readonly T[],
  namespaces: ReadonlyMap<string, string>,
): readonly (T & { readonly name: string })[] {
  const repeated = repeatedFolders(models);
  return models.map((model) => {
    const { place, folder } = model;
    const name = repeated.has(folder) ? `${namespaces.get(place)}${SEPARATOR}${folder}` : folder;
    return { ...model, name };
  });
}

/** Names that more than one repository has. */
export function repeatedFolders(models: readonly ModelFolder[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { folder } of models) {
    if (seen.has(folder)) repeated.add(folder);
    seen.add(folder);
  }
  return repeated;
}

/**
 * What the model of an ensemble's step is asked for by: that of the ensemble's own repository where there is one, else
 * the only one of that name; as the step has it where there is none, or several.
 */
export function stepName(
  step: string,
  place: string,
  models: readonly (ModelFolder & { readonly name: string })[],
): string {
  const found = models.filter(({ folder }) => folder === step);
  const own = found.find((model) => model.place === place);
  return own?.name ?? (found.length === 1 ? (found[0]?.name ?? step) : step);
}
