# frozen_string_literal: true

# The pages of classes and modules alone: the documents are pages of the site already, and it has a
# menu, styles and a search of its own.
def init
  options.files = []
  options.readme = nil
  super
end

def generate_assets; end
