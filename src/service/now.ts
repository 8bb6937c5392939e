/** The clock of the service. */
export const now = (): Date => new Date();
