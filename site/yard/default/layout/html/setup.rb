# frozen_string_literal: true

# The site's own layout (site/layouts/page.erb) surrounds what these templates make.
def init
  super
  sections :layout, [:index] if object == "_index.html"
end

def index
  all = run_verifier(Registry.all(:class, :module)).sort_by(&:path)
  grouped = all.group_by { |object| subject_of(object) }
  @subjects = ["plock", "Stores", "Errors", "Parse::Lock", "Drop-ins for other gems"]
    .to_h { |subject| [subject, grouped.fetch(subject)] }
  erb(:index)
end

def subject_of(object)
  case object.path
  when /\AParse/ then "Parse::Lock"
  when /\APlock::Store/ then "Stores"
  when /\APlock/ then object.type == :class && object.is_exception? ? "Errors" : "plock"
  else "Drop-ins for other gems"
  end
end

# Without links: those in a comment are meant to be followed from the page of their own class.
def summary_of(described)
  htmlify_line(described.docstring.summary.gsub(/\{(\S+?)(?: ([^}]+))?\}/) { $2 || "`#{$1}`" })
end
