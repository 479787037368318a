# frozen_string_literal: true

class Locker
  # Raised in the holder's block when somebody else has taken the row, or when its time is over and nobody knows. Whatever was done
  # since may have been done twice.
  class LockStolen < StandardError; end
end
