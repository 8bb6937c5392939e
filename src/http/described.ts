import { SetMetadata } from '@nestjs/common';

/** The operations of the API, by their operationId. */
type Operation =
  | 'createPlant'
  | 'listPlants'
  | 'readPlant'
  | 'readPlantHistory'
  | 'deletePlant'
  | 'readEvents'
  | 'readCheckpoint'
  | 'readTile'
  | 'readEntries'
  | 'proveInclusion'
  | 'proveConsistency'
  | 'readReceipt'
  | 'readStatus'
  | 'requestRebuild'
  | 'cancelRebuild'
  | 'requestRollback'
  | 'live'
  | 'ready';

/** Controllers, whose operations have something in common. */
type Group = 'plants' | 'audit' | 'log' | 'operations' | 'health';

/** What openapi.ts describes, all of it. */
export type Description = Operation | Group;

export const DESCRIPTION = Symbol('description');

/**
 * Names what the API's document says of a handler, or of a controller; a controller without a name is left out. The
 * words are in openapi.ts, which is loaded when somebody asks for the document: no start waits for it.
 */
export const Described = (description: Description): MethodDecorator & ClassDecorator =>
  SetMetadata(DESCRIPTION, description);
