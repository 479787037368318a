# frozen_string_literal: true

require "support/rails_application"

RSpec.shared_context "with an application of Rails" do
  before do
    missing = Support::RailsApplication.missing
    skip "#{missing} not installed" if missing
  end

  let(:app) { discard(Support::RailsApplication.generate, :remove) }

  # Runs the program in the application, and returns its output. The program must succeed.
  def told(program, **options)
    output, status = app.runner(program, **options)
    # the first lines contain the error and its place, and the later lines only Rails' own calls
    expect(status).to be_success, output.lines.first(20).join
    output
  end
end
