# frozen_string_literal: true

require "plock/compat/mongo_locking"
