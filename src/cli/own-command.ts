import { realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * The words by which a shell in `folder` runs this command, whose package is in `root`: `npx plants` in the checkout and in
 * a project that has it installed, `plants` where a folder of `searchPath` has it, else by its file. Without one of the
 * first two, `npx plants` would fetch a package of another publisher.
 */
export const ownCommand = (root: string, folder: string, searchPath: string): string => {
  const own = realpathSync(root);
  if ([folder, join(folder, 'node_modules', 'plant-store')].some((place) => realPath(place) === own))
    return 'npx plants';
  const file = join(own, 'bin', 'plants.js');
  const installed = searchPath
    .split(delimiter)
    .filter((place) => !place.endsWith(join('node_modules', '.bin'))) // of npm and npx: only while they run
    .some((searched) => realPath(join(searched, 'plants')) === file);
  return installed ? 'plants' : `node '${file.replaceAll("'", "'\\''")}'`;
};

const realPath = (path: string): string | undefined => {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
};
